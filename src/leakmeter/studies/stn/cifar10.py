"""Figure 1 of STN on CIFAR-10 (right) and table 1, at the scale of two cores: certified accuracy against radius.

The paper trains seven wide convolutions on all 50,000 images. Here a stranger's ResNet-20, whose weights are looked for
in the folder LEAKMETER_VICTIMS, is tuned for noise on the images at hand: once at the paper's sigma, with and without
stability training, and once at a smaller sigma, which suits the table's radius better.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import Row, by_group
from leakmeter.studies.stn._networks import ALPHA, MODELS, TUNING, certified_row, measured, radius_row

SIGMA, SMALL = round(100 / 255, 4), 0.12
ARMS = (("stability", SIGMA), ("gaussian", SIGMA), ("gaussian", SMALL))
RADII = (0.0, 0.05, 0.1, round(36 / 255, 4), 0.25, 0.375, 0.5, 0.75, 1.0)
PAPER: dict[str, Any] = {"radius": round(36 / 255, 4), "certified": 0.656, "bound": "renyi", "where": "table 1"}


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `stn-cifar10.json` and `.png`, all three bounds from the same votes."""
    count, n = (10, 100) if settings.quick else (100, 300)
    about = {"model": MODELS["cifar10"], "recipe": TUNING.model_dump(), "alpha": ALPHA, "images": count}
    record = settings.record("stn-cifar10", **about, paper=PAPER)
    for number in settings.numbers:
        for technique, sigma in ARMS[: 1 if settings.quick else None]:
            measure = partial(measured, settings, technique, sigma, count=count, n=n, radii=RADII, data="cifar10")
            record.cell(f"{technique}/sigma{sigma:g}/seed{number}", partial(measure, seed=number))
            _draw(record.content["cells"], settings.out / "stn-cifar10.png")
    return record.content


def rows(found: dict[str, Any]) -> list[Row]:
    """Certified accuracy at the paper's radius, and the average radius."""
    told = []
    for name, cells in by_group(found["cells"]).items():
        paper = None if name == f"gaussian/sigma{SIGMA:g}" else PAPER["certified"]
        told += [certified_row(name, cells, PAPER["radius"], bound, paper=paper) for bound in ("tight", "renyi")]
        told.append(radius_row(name, cells))
    return told


def _draw(cells: dict[str, Any], place: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for number, (name, group) in enumerate(by_group(cells).items()):
        for bound, style in (("tight", "-"), ("renyi", "--"), ("pixeldp", ":")):
            points = group[0]["bounds"][bound]["certified"]
            label = f"{name}, {bound}" if bound == "tight" or not number else None
            radii, accuracy = [point["radius"] for point in points], [point["accuracy"] for point in points]
            axes.plot(radii, accuracy, style, color=f"C{number}", label=label)
    axes.plot([PAPER["radius"]], [PAPER["certified"]], "k*", label="STN in the paper")
    axes.set(xlabel="l2 radius", ylabel="certified accuracy", ylim=(0, 1))
    axes.legend(fontsize="small")
    figure.savefig(place, dpi=120)
