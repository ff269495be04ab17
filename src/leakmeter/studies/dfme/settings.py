"""DFME table 4's temperature and schedule against a stranger's ResNet-20, chosen as an attacker must choose them.

The weights are looked for in the folder LEAKMETER_VICTIMS. The student is a narrow `small-conv`. A fifth of the answers
is held out: the setting whose student names most of them is the one to take. Beside it stands the paper's way, the
setting with the highest accuracy on test data.
"""

from __future__ import annotations

from functools import partial
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn

from leakmeter.data.catalogue import load
from leakmeter.evaluation.score import predict
from leakmeter.extraction.base import make_student
from leakmeter.extraction.pool import gaussian, real_inputs
from leakmeter.extraction.targets import answered_logits, kl_loss
from leakmeter.oracle.oracle import Oracle
from leakmeter.seeds import derive, stream
from leakmeter.studies.copies import victim_of
from leakmeter.studies.dfme.table4 import SCHEDULES, TABLE, TEMPERATURES, VICTIMS_OF_THE_PAPER, Pool
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import Row, by_group, share
from leakmeter.training.loop import Batch, Recipe, fit
from leakmeter.victims.spec import VictimSpec

STUDENT = "small-conv:8"
MOST, STEPS = 5_000, 200
HELD_OUT = 0.2
"""Of the answers: no student learns from them."""
POOLS = {pool.name: pool for pool in TABLE["cifar10"] if pool.name in ("cifar100", "cifar10", "svhn")}
SETTINGS = {f"tau{tau:g}/{schedule}": (tau, schedule) for tau in TEMPERATURES for schedule in SCHEDULES}
Choices = dict[str, dict[str, float]]


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `dfme-settings.json`."""
    about = {"victim": "resnet20", "student": STUDENT, "steps": STEPS, "held_out": HELD_OUT}
    record = settings.record("dfme-settings", **about, queries=f"the whole pool, at most {MOST}")
    for number in settings.numbers:
        for name in list(POOLS)[: 1 if settings.quick else None]:
            record.cell(f"{name}/seed{number}", partial(_cell, settings, POOLS[name], number))
    return record.content


def _cell(settings: StudyOptions, pool: Pool, seed: int) -> dict[str, Any]:
    """The pool is asked once; every setting learns from the same answers."""
    victim = victim_of(settings, "cifar10", "resnet20", seed)
    x = _inputs(settings, pool, victim.spec, seed)
    oracle = Oracle(victim, "probs", len(x))
    answers = answered_logits(oracle.query(x)).float()
    test, true = load("cifar10", "test", settings.data_dir).labelled()
    right = Oracle(victim, "labels").judge(test).labels == true
    learn = len(x) - int(HELD_OUT * len(x))
    choices: Choices = {}
    for name, (tau, schedule) in list(SETTINGS.items())[: 2 if settings.quick else None]:
        student = make_student(STUDENT, victim.spec, derive(seed, "student"))
        recipe = Recipe(
            steps=20 if settings.quick else STEPS,
            batch=128,
            optimizer="sgd",
            lr=0.1,
            weight_decay=5e-4,
            schedule=schedule,
        )
        fit(student, (x[:learn], answers[:learn]), partial(_loss, tau), recipe, seed=seed, progress=settings.progress)
        agreed = _share(predict(student, x[learn:]).argmax(1) == answers[learn:].argmax(1))
        choices[name] = {"held_out": agreed, "accuracy": _share(predict(student, test).argmax(1) == true)}
    return {"queries": len(x), "n": len(test), "victim_accuracy": _share(right), "settings": choices}


def _inputs(settings: StudyOptions, pool: Pool, spec: VictimSpec, seed: int) -> Tensor:
    most, draws, name = 500 if settings.quick else MOST, stream(seed, "pool"), pool.options["pool"]
    if name == "gaussian":
        return gaussian(most, spec, draws)
    x = real_inputs(name, settings.data_dir, spec)
    return x[torch.randperm(len(x), generator=draws)[:most]].float()


def _loss(tau: float, model: nn.Module, batch: Batch, _: torch.Generator) -> Tensor:
    x, target = batch
    return kl_loss(model(x), target, tau)


def _share(hits: Tensor) -> float:
    return float(hits.double().mean())


def chosen(choices: Choices) -> str:
    """The setting an attacker takes: the first of those that name most of the answers held out."""
    return max(choices, key=lambda name: choices[name]["held_out"])


def best(cells: list[dict[str, Any]]) -> str:
    """The setting the paper would show: the highest on test data, over all seeds."""
    names: list[str] = list(cells[0]["settings"])
    return max(names, key=lambda name: fmean(cell["settings"][name]["accuracy"] for cell in cells))


def rows(found: dict[str, Any]) -> list[Row]:
    """The share of the victim's accuracy from every pool, by both ways to choose."""
    told = []
    for name, cells in by_group(found["cells"]).items():
        paper = POOLS[name].paper
        for how, picks in (
            ("chosen by held-out answers", [chosen(cell["settings"]) for cell in cells]),
            ("chosen on test data, as in the paper", [best(cells)] * len(cells)),
        ):
            accurate = [cell["settings"][pick]["accuracy"] for cell, pick in zip(cells, picks, strict=True)]
            told.append(
                share(
                    f"resnet20 from {name}, {how}: share of the victim's accuracy",
                    [value / cell["victim_accuracy"] for value, cell in zip(accurate, cells, strict=True)],
                    cells[0]["n"],
                    f"{cells[0]['queries']:,} queries, {found['steps']} steps, {' and '.join(dict.fromkeys(picks))}",
                    paper=None if paper is None else paper / VICTIMS_OF_THE_PAPER["cifar10"],
                    most=1 / min(cell["victim_accuracy"] for cell in cells),
                )
            )
    return told
