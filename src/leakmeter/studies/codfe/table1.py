"""CoDFe table 1: how often examples made on a stolen copy flip the victim, with the controls the paper lacks.

The copies are those of `codfe-fig2` (CoDFe and DaST, as in the paper) and of `procedural` (ours). Victim and student
are LeNet. The controls are an untrained copy and random noise of the same norm.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from leakmeter.studies.codfe import fig2
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.ours import procedural
from leakmeter.studies.rows import Row
from leakmeter.studies.thieves import attack_with, table, transfer_rows

ARMS = ("codfe", "procedural", "dast")
"""In the order of what matters most: a study that is stopped early has the paper's own."""
VIEWS = ("probs", "labels")
_PAPER = """
mnist fgsm 24.65 52.00 20.22 53.72 6.33 16.04 6.32 16.47
mnist bim 27.93 61.76 27.83 65.26 2.49 15.42 2.07 18.94
mnist pgd 28.42 60.92 27.73 65.19 2.78 15.33 2.13 18.97
fashion-mnist bim 88.50 90.42 85.10 87.10 6.18 37.28 23.46 28.46
fashion-mnist pgd 89.93 92.07 85.60 88.69 5.71 37.75 23.55 28.63
"""
"""Table 1; Fashion-MNIST's FGSM row is not legible in our text of the paper."""


def paper() -> dict[str, float]:
    """The paper's rates by row name."""
    rates: dict[str, float] = {}
    for line in _PAPER.split("\n"):
        if not line:
            continue
        dataset, attack, *numbers = line.split()
        names = [
            f"{dataset}/{view}/{arm}/{goal}/{attack}"
            for goal in ("untargeted", "second class")
            for view in ("probs", "labels")
            for arm in ("dast", "codfe")
        ]
        rates |= {name: float(number) / 100 for name, number in zip(names, numbers, strict=True)}
    return rates


def main(settings: StudyOptions) -> dict[str, Any]:
    """Every copy attacked in every way."""
    record = settings.record("codfe-table1", victim="lenet", student="lenet")
    for arm in ARMS:
        for dataset in fig2.datasets(settings):
            for view in VIEWS:
                for number in settings.numbers:
                    cell = partial(_cell, settings, dataset, view, arm, number)
                    record.cell(f"{dataset}/{view}/{arm}/seed{number}", cell)
                    record.write(table=table(record.content["cells"], paper()))
    return record.content


def rows(found: dict[str, Any]) -> list[Row]:
    """Every copy, goal and attack."""
    return transfer_rows(found["cells"], paper())


def _cell(settings: StudyOptions, dataset: str, view: str, arm: str, seed: int) -> dict[str, Any]:
    if arm != "procedural":
        return attack_with(settings, fig2.stolen(settings, dataset, view, arm, seed))
    ours = next(each for each in procedural.ARMS if (each.name, each.dataset) == (f"procedural-{view}", dataset))
    return attack_with(settings, procedural.stolen(settings, ours, seed))
