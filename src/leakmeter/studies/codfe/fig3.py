"""CoDFe figure 3: the loss of the student over rounds of a thousand queries, on MNIST.

The loss is its cross entropy on what it learns from, which falls to the entropy of the victim's answers and no lower.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from leakmeter.studies.codfe.fig2 import ARMS
from leakmeter.studies.copies import steal
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import Row, by_group, of_median

ROUNDS, ROUND = 20, 1000


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `codfe-fig3.json` and `.png`."""
    record = settings.record("codfe-fig3", victim="lenet", student="lenet", data="mnist", view="probs")
    for arm in ("codfe", "codfe-literal"):
        for number in settings.numbers:
            record.cell(f"{arm}/seed{number}", partial(_cell, settings, arm, number))
            _draw(record.content["cells"], settings.out / "codfe-fig3.png")
    return record.content


def _cell(settings: StudyOptions, arm: str, seed: int) -> dict[str, Any]:
    attack, options = ARMS[arm]
    stops = [ROUND * (k + 1) for k in range(2 if settings.quick else ROUNDS)]
    return steal(settings, attack, "mnist", view="probs", stops=stops, seed=seed, **options).facts


def rows(found: dict[str, Any]) -> list[Row]:
    """The loss of the last round over that of the first."""
    told = []
    for arm, cells in by_group(found["cells"]).items():
        losses = [[point["loss"] for point in cell["notes"]["answers"]] for cell in cells]
        falls = [each[-1] / each[0] for each in losses]
        last = cells[0]["curve"][-1]
        budget = f"{last['queries']:,} queries, first {losses[0][0]:.3g}, accuracy then {last['accuracy']:.1%}"
        told.append(of_median(f"{arm}: loss, last over first", falls, budget, paper="falls", met=max(falls) < 1))
    return told


def _draw(cells: dict[str, Any], place: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.5), layout="constrained")
    axes = figure.subplots()
    for number, (arm, group) in enumerate(by_group(cells).items()):
        for cell in group:
            points = [(point["queries"], point["loss"]) for point in cell["notes"]["answers"]]
            axes.plot(*zip(*points, strict=True), color=f"C{number}", label=arm if cell is group[0] else None)
    axes.set(xlabel="queries", ylabel="loss of the student")
    axes.legend()
    figure.savefig(place, dpi=120)
