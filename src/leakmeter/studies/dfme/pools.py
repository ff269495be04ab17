"""DFME table 4's CIFAR-10 row on a real ResNet: what a pool is worth against a stranger's ResNet-20.

The weights are looked for in the folder LEAKMETER_VICTIMS. The student is a narrow `small-conv`. One temperature and
schedule, those that were best over all pools against the small victim of `dfme-table4`: nothing is chosen on this one.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from leakmeter.studies.copies import steal
from leakmeter.studies.dfme.table4 import TABLE, VICTIMS_OF_THE_PAPER, Pool
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import Row, by_group, share

STUDENT = "small-conv:8"
MOST, STEPS, TEMPERATURE = 20_000, 600, 10.0
POOLS = {pool.name: pool for pool in TABLE["cifar10"]}


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `dfme-pools.json`."""
    about = {"victim": "resnet20", "student": STUDENT, "steps": STEPS, "temperature": TEMPERATURE}
    record = settings.record("dfme-pools", **about, queries=f"the whole pool, at most {MOST}")
    for number in settings.numbers:
        for name in list(POOLS)[: 1 if settings.quick else None]:
            record.cell(f"{name}/seed{number}", partial(_cell, settings, name, number))
    return record.content


def _cell(settings: StudyOptions, name: str, seed: int) -> dict[str, Any]:
    pool: Pool = POOLS[name]
    recipe = {"steps": 20 if settings.quick else STEPS, "batch": 128, "optimizer": "sgd", "lr": 0.1}
    recipe |= {"weight_decay": 5e-4, "schedule": "cyclic"}
    options = pool.options | {"student": STUDENT, "temperature": TEMPERATURE, "recipe": recipe}
    return steal(
        settings,
        "surrogate",
        "cifar10",
        view="probs",
        stops=[500 if settings.quick else MOST],
        seed=seed,
        victim="resnet20",
        data_dir=settings.data_dir,
        **options,
    ).facts


def rows(found: dict[str, Any]) -> list[Row]:
    """The share of the victim's accuracy from every pool."""
    told = []
    for name, cells in by_group(found["cells"]).items():
        last = [cell["curve"][-1] for cell in cells]
        shares = [point["accuracy"] / point["victim_accuracy"] for point in last]
        paper = POOLS[name].paper
        told.append(
            share(
                f"resnet20 from {name}: share of the victim's accuracy",
                shares,
                last[0]["n"],
                f"{last[0]['queries']:,} queries, {found['steps']} steps",
                paper=None if paper is None else paper / VICTIMS_OF_THE_PAPER["cifar10"],
                most=1 / min(point["victim_accuracy"] for point in last),
            )
        )
    return told
