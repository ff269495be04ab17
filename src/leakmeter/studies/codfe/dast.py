"""DaST at length (CoDFe figure 4, its appendix): does it move at all, on MNIST, LeNet to LeNet?

Its authors pick the best of all checkpoints on test data; both that and the final accuracy are told. Batches are of 100
where its authors have 500, so that these queries buy as many steps as two million would; the generator is narrow, since
most of the time is its. A run that is stopped goes on where it was.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from leakmeter.studies.copies import collapsed, steal
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import Row, by_group, share

STOPS = [25_000 * k for k in range(1, 17)]
OPTIONS: dict[str, Any] = {"width": 2, "batch": 100}
PAPER = {"probs": 0.30, "labels": 0.52}
"""Of DaST in CoDFe's figure, at 350,000 queries."""


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `codfe-dast.json`."""
    record = settings.record("codfe-dast", victim="lenet", student="lenet", data="mnist", paper=PAPER)
    for number in settings.numbers:
        for view in PAPER:
            record.cell(f"{view}/seed{number}", partial(_cell, settings, view, number))
    return record.content


def _cell(settings: StudyOptions, view: str, seed: int) -> dict[str, Any]:
    stops = [1000, 2000] if settings.quick else STOPS
    return steal(settings, "dast", "mnist", view=view, stops=stops, seed=seed, **OPTIONS).facts


def rows(found: dict[str, Any]) -> list[Row]:
    """The best and the final accuracy."""
    told = []
    for view, cells in by_group(found["cells"]).items():
        last = cells[0]["curve"][-1]
        steps = last["queries"] // OPTIONS["batch"]
        budget = f"{last['queries']:,} queries, {steps:,} steps, {sum(map(collapsed, cells))} collapsed"
        final = [cell["curve"][-1]["accuracy"] for cell in cells]
        best = [max(point["accuracy"] for point in cell["curve"]) for cell in cells]
        for what, values in (("final", final), ("best, chosen on test data", best)):
            told.append(share(f"dast, mnist, {view}: {what}", values, last["n"], budget, paper=PAPER[view]))
    return told
