"""Figure 1 of STN on CIFAR-10 (right), at the scale of two cores: certified accuracy against radius.

The paper's network has seven wide convolutions and all 50,000 images; here it is `small-conv` and whatever images are
at hand, so the order of the lines compares with the paper, not their height.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import Row, by_group
from leakmeter.studies.stn._networks import ALPHA, MODELS, RECIPE, certified_row, measured, radius_row

SIGMA = round(100 / 255, 4)
RADII = (0.0, round(36 / 255, 4), 0.25, 0.5, 0.75, 1.0)
PAPER: dict[str, Any] = {"radius": RADII[1], "certified": 0.656, "bound": "renyi", "where": "table 1"}


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `stn-cifar10.json`: stability training beside plain Gaussian, under all three bounds."""
    count, n = (20, 300) if settings.quick else (500, 1000)
    about = {"model": MODELS["cifar10"], "recipe": RECIPE.model_dump(), "alpha": ALPHA, "images": count}
    record = settings.record("stn-cifar10", **about, sigma=SIGMA, paper=PAPER)
    for technique in ("stability", "gaussian"):
        for number in settings.numbers:
            measure = partial(measured, settings, technique, SIGMA, count=count, n=n, radii=RADII, data="cifar10")
            record.cell(f"{technique}/seed{number}", partial(measure, seed=number))
    return record.write()


def rows(found: dict[str, Any]) -> list[Row]:
    """Certified accuracy at the paper's radius, and the average radius."""
    told = []
    for name, cells in by_group(found["cells"]).items():
        paper = PAPER["certified"] if name == "stability" else None
        told += [certified_row(name, cells, PAPER["radius"], bound, paper=paper) for bound in ("tight", "renyi")]
        told.append(radius_row(name, cells))
    return told
