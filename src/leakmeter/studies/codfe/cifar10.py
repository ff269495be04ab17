"""CoDFe's tables on CIFAR-10: examples made on copies of a stranger's ResNet-20, with the controls the paper lacks.

The weights are looked for in the folder LEAKMETER_VICTIMS. Every copy is a small convolutional network and has the
same number of queries, or the whole pool where that is smaller.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from leakmeter.studies.copies import StolenCopy, steal
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import Row, by_group, share
from leakmeter.studies.thieves import attack_with, transfer_rows

BUDGET, IMAGES, STUDENT = 5_000, 100, "small-conv:8"
VIEWS = ("probs", "labels")
GOALS = ("untargeted", "second class")
"""The paper's two. What the victim's own examples do towards them is the same for every copy, and made once."""
_POOL = {
    "temperature": 10.0,
    "recipe": {
        "steps": 300,
        "batch": 128,
        "optimizer": "sgd",
        "lr": 0.1,
        "weight_decay": 5e-4,
        "schedule": "cyclic",
    },
}
_SHORT = {"steps": 500, "batch": 128, "lr": 3e-3, "schedule": "cyclic"}
ARMS: dict[str, tuple[str, dict[str, Any]]] = {
    "pool cifar10": ("surrogate", {"pool": "cifar10", **_POOL}),
    "pool cifar100": ("surrogate", {"pool": "cifar100", **_POOL}),
    "codfe": ("codfe", {"width": 16}),
    "procedural": ("procedural", {"committee": 1, "lessons": 0, "learn": _SHORT, "scout": _SHORT}),
    "dast": ("dast", {"width": 2}),
}
"""Copies from pools first, which cost least."""
_PAPER: dict[str, dict[str, tuple[float | None, ...]]] = {
    "fgsm": {"untargeted": (56.06, 58.60, 54.62, 57.99), "second class": (None, 0.22, 0.16, 0.22)},
    "bim": {"untargeted": (58.54, 60.18, 56.25, 60.02), "second class": (0.27, 0.27, 0.17, 0.20)},
    "pgd": {"untargeted": (58.52, 59.95, 56.15, 59.50), "second class": (0.29, 0.25, 0.12, 0.19)},
}
"""Table 1: DaST-P, CoDFe-P, DaST-L, CoDFe-L; one rate is not legible in our text of the paper."""
PAPER = {
    f"{view}/{arm}/{goal}/{attack}": rate / 100
    for attack, goals in _PAPER.items()
    for goal, rates in goals.items()
    for rate, (view, arm) in zip(rates, ((view, arm) for view in VIEWS for arm in ("dast", "codfe")), strict=True)
    if rate is not None
}


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `codfe-cifar10.json`."""
    record = settings.record("codfe-cifar10", victim="resnet20", student=STUDENT)
    for number in settings.numbers:
        for arm in list(ARMS)[: 1 if settings.quick else None]:
            for view in VIEWS:
                record.cell(f"{view}/{arm}/seed{number}", partial(_cell, settings, view, arm, number))
    return record.content


def _cell(settings: StudyOptions, view: str, arm: str, seed: int) -> dict[str, Any]:
    return attack_with(settings, _copy(settings, view, arm, seed), goals=GOALS, images=IMAGES)


def _copy(settings: StudyOptions, view: str, arm: str, seed: int) -> StolenCopy:
    attack, options = ARMS[arm]
    options = {**options, "student": STUDENT}
    if attack == "surrogate":
        options["data_dir"] = settings.data_dir
    stops = [500 if settings.quick else BUDGET]
    return steal(settings, attack, "cifar10", view=view, stops=stops, seed=seed, victim="resnet20", **options)


def rows(found: dict[str, Any]) -> list[Row]:
    """The accuracy of every copy, then every goal and attack."""
    accuracies = []
    for name, cells in by_group(found["cells"]).items():
        values = [cell["accuracy"] for cell in cells]
        accuracies.append(share(f"{name}: accuracy", values, cells[0]["n"], f"{cells[0]['queries']:,} queries"))
    return [*accuracies, *transfer_rows(found["cells"], PAPER)]
