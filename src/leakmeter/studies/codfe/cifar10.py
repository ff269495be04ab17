"""CoDFe's tables on CIFAR-10: examples made on copies of a stranger's ResNet-20, with the controls the paper lacks.

The weights are looked for in the folder LEAKMETER_VICTIMS. Every copy is a small convolutional network and has the
same number of queries; the pools are those of `dfme-pools`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from leakmeter.studies.copies import StolenCopy, steal
from leakmeter.studies.dfme import pools
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import Row
from leakmeter.studies.thieves import attack_with, transfer_rows

BUDGET = 20_000
ARMS: dict[str, tuple[str, dict[str, Any]]] = {
    "codfe": ("codfe", {"width": 16}),
    "dast": ("dast", {"width": 8}),
    "procedural": ("procedural", {"committee": 1, "lessons": 0}),
}
POOLS = ("cifar10", "cifar100")
PAPER = {
    f"probs/codfe/{goal}/{attack}": rate / 100
    for goal, rates in (("untargeted", (58.6, 60.2, 60.0)), ("second class", (0.22, 0.27, 0.25)))
    for attack, rate in zip(("fgsm", "bim", "pgd"), rates, strict=True)
}


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `codfe-cifar10.json`: copies from pools first, which cost least."""
    record = settings.record("codfe-cifar10", victim="resnet20", student=pools.STUDENT)
    arms = [*(f"pool {name}" for name in POOLS), *ARMS]
    for arm in arms[:1] if settings.quick else arms:
        for number in settings.numbers:
            record.cell(f"probs/{arm}/seed{number}", partial(_cell, settings, arm, number))
    return record.content


def _cell(settings: StudyOptions, arm: str, seed: int) -> dict[str, Any]:
    return attack_with(settings, _copy(settings, arm, seed))


def _copy(settings: StudyOptions, arm: str, seed: int) -> StolenCopy:
    if arm not in ARMS:
        return pools.stolen(settings, arm.removeprefix("pool "), seed)
    attack, options = ARMS[arm]
    options = {**options, "student": pools.STUDENT}
    return steal(settings, attack, "cifar10", view="probs", stops=[BUDGET], seed=seed, victim="resnet20", **options)


def rows(found: dict[str, Any]) -> list[Row]:
    """Every copy, goal and attack."""
    return transfer_rows(found["cells"], PAPER)
