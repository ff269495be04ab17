"""DFME figure 7: what its generator asks late in the attack on a stranger's ResNet-20, and how far the copy is then.

The weights are looked for in the folder LEAKMETER_VICTIMS. A run that is stopped goes on where it was; `procedural` at
the same number of queries stands beside it.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import partial
from math import log
from statistics import fmean
from typing import Any

from leakmeter.evaluation.intervals import attack_mean, exact
from leakmeter.studies.copies import steal
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import Row, by_group, share

STOPS = [50_000, 100_000, 250_000, 500_000]
STUDENT = "small-conv:8"
ARMS: dict[str, dict[str, Any]] = {
    "dfme": {"student": STUDENT, "width": 16, "batch": 128, "student_optimizer": "adam", "student_lr": 2e-3},
    "procedural": {"student": STUDENT, "committee": 1, "lessons": 0},
}
CHANCE = 0.1


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `dfme-fig7.json` and, for each attack, the last of what it asked."""
    record = settings.record("dfme-fig7", victim="resnet20", student=STUDENT, paper="four images")
    for arm in list(ARMS)[: 1 if settings.quick else None]:
        for number in settings.numbers:
            record.cell(f"{arm}/seed{number}", partial(stolen, settings, arm, number, **ARMS[arm]))
    return record.content


def stolen(settings: StudyOptions, attack: str, seed: int, **options: Any) -> dict[str, Any]:
    """The facts of a copy of ResNet-20; the last of what was asked is drawn beside the study's JSON."""
    stops = [2000] if settings.quick else STOPS
    copy = steal(settings, attack, "cifar10", view="probs", stops=stops, seed=seed, victim="resnet20", **options)
    settings.out.mkdir(parents=True, exist_ok=True)
    shutil.copy(copy.sheet, settings.out / f"{attack}-seed{seed}.png")
    return copy.facts


def rows(found: dict[str, Any]) -> list[Row]:
    """Accuracy of the copy at the end; chance is a tenth."""
    told = []
    for arm, cells in by_group(found["cells"]).items():
        last = [cell["curve"][-1] for cell in cells]
        values, n = [point["accuracy"] for point in last], last[0]["n"]
        spread = [cell["notes"]["answers"][-1]["class_entropy"] for cell in cells if "answers" in cell["notes"]]
        budget = f"{last[0]['queries']:,} queries"
        if spread:
            budget += f", entropy of the last answers {fmean(spread):.2f} of {log(10):.2f}"
        above = (exact(values[0] * n, n) if len(values) == 1 else attack_mean(values, n)).low > CHANCE
        row = share(f"resnet20, {arm}: accuracy", values, n, budget)
        told.append(replace(row, paper=f"goal above {CHANCE:.0%}, interval and all", met=above))
    return told
