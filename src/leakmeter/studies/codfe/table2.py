"""CoDFe table 2: the upper bound, a copy made from real unlabelled images of the victim's own kind."""

from __future__ import annotations

from functools import partial
from typing import Any

from leakmeter.studies.copies import steal
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import Row
from leakmeter.studies.thieves import attack_with, table, transfer_rows

BUDGET = 10_000
VIEWS = ("probs", "labels")
_RATES = {
    "fgsm": (63.95, 61.80, 16.38, 15.68),
    "bim": (79.02, 80.24, 29.95, 30.06),
    "pgd": (78.77, 80.46, 29.48, 30.20),
}
PAPER = {
    f"mnist/{view}/real/{goal}/{attack}": rates[2 * i + j] / 100
    for attack, rates in _RATES.items()
    for i, goal in enumerate(("untargeted", "second class"))
    for j, view in enumerate(VIEWS)
}


def main(settings: StudyOptions) -> dict[str, Any]:
    """Copies from real MNIST images, attacked in every way."""
    record = settings.record("codfe-table2", victim="lenet", student="lenet", pool="mnist")
    for view in VIEWS:
        for number in settings.numbers:
            record.cell(f"mnist/{view}/real/seed{number}", partial(_cell, settings, view, number))
            record.write(table=table(record.content["cells"], PAPER))
    return record.content


def rows(found: dict[str, Any]) -> list[Row]:
    """Every goal and attack."""
    return transfer_rows(found["cells"], PAPER)


def _cell(settings: StudyOptions, view: str, seed: int) -> dict[str, Any]:
    stops, where = [1_000 if settings.quick else BUDGET], settings.data_dir
    copy = steal(settings, "surrogate", "mnist", view=view, stops=stops, seed=seed, pool="mnist", data_dir=where)
    return attack_with(settings, copy)
