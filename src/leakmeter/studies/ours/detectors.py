"""Detectors over attacks: queries until the alarm, what the thief had by then, and false alarms on honest users."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from leakmeter.data.catalogue import load
from leakmeter.detectors import Detector, prepared
from leakmeter.evaluation.intervals import exact
from leakmeter.evaluation.score import Reference, reference
from leakmeter.extraction.given import Given, copy_from
from leakmeter.oracle.oracle import Oracle
from leakmeter.seeds import derive, stream
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import Row
from leakmeter.studies.victims import trained
from leakmeter.traffic.adapted import adapted_thief
from leakmeter.traffic.client import Client, split
from leakmeter.traffic.honest import honest_clients
from leakmeter.traffic.thieves import thief
from leakmeter.training.loop import Recipe
from leakmeter.victims.load import load_victim
from leakmeter.victims.victim import Victim

DETECTORS = ("prada", "hoda", "seat", "mmd")
ACCOUNTS = (1, 10)
BUDGET, USERS = 600, 60
EFFORT = 0.05
STUDENTS = ("linear", "lenet")
"""What the thief's answers by the time of an alarm are learned by."""
_STEPS = {"steps": 300, "batch": 100, "lr": 3e-3, "schedule": "cyclic"}
ATTACKS: dict[str, dict[str, Any]] = {
    "uniform": {"effort": EFFORT},
    "plain": {},
    "auto": {"effort": EFFORT},
    "procedural": {"committee": 1, "lessons": 0, "learn": _STEPS},
    "surrogate": {"pool": "digits", "recipe": _STEPS},
    "dfme": {"batch": 64, "width": 16, "student_optimizer": "adam", "student_lr": 2e-3, "generator_lr": 1e-3},
    "codfe": {"noise": 100, "student_iterations": 30, "generator_iterations": 10, "width": 16},
    "dast": {"batch": 50, "student_lr": 2e-3, "generator_lr": 1e-3, "width": 16},
}
_DIGITS = Recipe(epochs=25, batch=64, lr=3e-3, schedule="cyclic")
ADAPTED = "auto, every second query honest"
HERDED = "a hundred digits, distorted so that they look natural"
OWN = 100


@dataclass(frozen=True, eq=False)
class Scene:
    """A victim, what honest users ask, the truth, and detectors that know what is honest."""

    victim: Victim
    natural: Tensor
    truth: Reference
    taught: dict[str, Detector]
    """Every detector, after it has learned what is honest and before it has seen a client."""


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `detectors.json` and `.png`: one row a detector, attack and number of accounts, means over seeds."""
    attacks = [*ATTACKS, ADAPTED, HERDED][: 1 if settings.quick else None]
    budget, users = (200, 5) if settings.quick else (BUDGET, USERS)
    record = settings.record("detectors", victim="digits, LeNet", budget=budget, users=users, seeds=settings.seeds)
    for seed in settings.numbers:
        scene = _scene(seed)
        for detector in DETECTORS:
            record.cell(f"honest | {detector} | seed {seed}", partial(_honest, scene, detector, users, seed))
        for attack in attacks:
            record.cell(f"{attack} | seed {seed}", partial(_attack, scene, attack, budget, seed))
    table = [
        summary(record.content["cells"], detector, attack, accounts, settings.numbers)
        for detector in DETECTORS
        for attack in attacks
        for accounts in ACCOUNTS
    ]
    content = record.write(table=table)
    _draw(table, settings.out / "detectors.png")
    return content


def _scene(seed: int) -> Scene:
    """Half of the test digits teach the detectors, honest users ask the other half."""
    victim = load_victim(trained("digits", seed=seed, recipe=_DIGITS), input_shape=(1, 8, 8), low=0.0, high=1.0)
    test = load("digits", "test")
    half = len(test) // 2
    labels = Oracle(victim, "labels").judge(test.x).labels
    taught = {name: prepared(name, (test.x[:half], labels[:half])) for name in DETECTORS}
    return Scene(victim, test.x[half:], reference(victim, test), taught)


def _honest(scene: Scene, detector: str, users: int, seed: int) -> dict[str, Any]:
    clients = honest_clients(scene.victim, scene.natural, users, queries=150, seed=seed)
    fired = [_fired(scene, detector, client) for client in clients]
    return {"users": users, "flagged": sum(each is not None for each in fired)}


def _fired(scene: Scene, detector: str, client: Client) -> int | None:
    watcher = deepcopy(scene.taught[detector])
    watcher.observe(client.x, client.answer.labels)
    return watcher.fired_at


def _attack(scene: Scene, attack: str, budget: int, seed: int) -> dict[str, Any]:
    """Of each detector and number of accounts: the thief's queries at the first alarm, and its copy by then."""
    client = _thief(scene, attack, budget, seed)
    fidelity = cache(partial(_fidelity, scene, client, seed))
    found: dict[str, Any] = {"fidelity": fidelity(len(client))}
    for detector in DETECTORS:
        for accounts in ACCOUNTS:
            moments = [_fired(scene, detector, part) for part in split(client, accounts)]
            alarms = [moment for moment in moments if moment is not None]
            at = None if not alarms else min(len(client), min(alarms) * accounts)
            by_then = None if at is None else fidelity(at)
            found[f"{detector}/{accounts}"] = {"queries": at, "fidelity": by_then}
    return found


def _thief(scene: Scene, attack: str, budget: int, seed: int) -> Client:
    if attack in ATTACKS:
        return thief(scene.victim, attack, budget, seed=seed, **ATTACKS[attack])
    pool = load("digits", "train").x
    decoys = pool[torch.randperm(len(pool), generator=stream(seed, "decoys"))[: budget // 2]]
    if attack == HERDED:
        return adapted_thief(scene.victim, decoys[:OWN], budget, seed=seed)
    client = thief(scene.victim, "auto", budget, seed=seed, **ATTACKS["auto"])
    x = client.x.clone()
    x[1::2] = decoys[: len(x[1::2])]
    return Client(ADAPTED, x, Oracle(scene.victim, "probs").query(x), client.times, attack=ADAPTED)


def _fidelity(scene: Scene, client: Client, seed: int, n: int) -> float:
    given = Given(client.x, client.answer).first(n)
    copy = copy_from(given, scene.victim.spec, derive(seed, "then", n), effort=EFFORT, students=STUDENTS)
    return scene.truth.score(copy).fidelity


def summary(cells: dict[str, Any], detector: str, attack: str, accounts: int, seeds: range) -> dict[str, Any]:
    """One row of the table; a thief who set nothing off is taken with the copy it had in the end."""
    found = [cells[f"{attack} | seed {seed}"] for seed in seeds]
    alarms = [each[f"{detector}/{accounts}"] for each in found]
    fired = [each for each in alarms if each["queries"] is not None]
    honest = [cells[f"honest | {detector} | seed {seed}"] for seed in seeds]
    flagged, users = sum(each["flagged"] for each in honest), sum(each["users"] for each in honest)
    had = [a["fidelity"] if a["fidelity"] is not None else f["fidelity"] for a, f in zip(alarms, found, strict=True)]
    return {
        "detector": detector,
        "attack": attack,
        "accounts": accounts,
        "fired": f"{len(fired)} of {len(alarms)}",
        "queries at the alarm": fmean(each["queries"] for each in fired) if fired else None,
        "fidelity the thief had": fmean(had),
        "false alarms": flagged / users,
        "false alarms interval": exact(flagged, users).model_dump(),
    }


def _draw(table: list[dict[str, Any]], path: Path) -> None:
    """Fidelity at the alarm against false alarms; hollow where the detector stayed silent in some run.

    Detectors and attacks stand a little apart, so that points of the same rate do not hide each other.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.subplots()
    markers = dict(zip(DETECTORS, "osD^", strict=True))
    colors = {attack: f"C{place}" for place, attack in enumerate(dict.fromkeys(row["attack"] for row in table))}
    for row in table:
        fired, runs = row["fired"].split(" of ")
        apart = 0.012 * DETECTORS.index(row["detector"]) + 0.0015 * [*colors].index(row["attack"])
        point = (row["false alarms"] + apart, row["fidelity the thief had"])
        face = colors[row["attack"]] if fired == runs else "none"
        size = 40 if row["accounts"] == 1 else 90
        axes.scatter(*point, s=size, marker=markers[row["detector"]], edgecolor=colors[row["attack"]], facecolor=face)
    for name, marker in markers.items():
        axes.scatter([], [], marker=marker, color="0.4", label=name)
    for name, color in colors.items():
        axes.scatter([], [], marker="s", color=color, label=name)
    axes.set(xlabel="false alarms (share of honest users), set a little apart", ylim=(0, 1.03))
    axes.set(ylabel="fidelity the thief had at the alarm", title="hollow: silent in some run; large: ten accounts")
    figure.legend(fontsize=7, loc="outside right upper")
    figure.savefig(path, dpi=150)


def rows(found: dict[str, Any]) -> list[Row]:
    """What a thief had when it set off an alarm, by detector, attack and number of accounts."""
    told = []
    for row in found["table"]:
        ends = row["false alarms interval"]
        budget = (
            f"fired {row['fired']}; false alarms {row['false alarms']:.1%} ({ends['low']:.1%} to {ends['high']:.1%})"
        )
        what = f"{row['detector']}, {row['attack']}, accounts {row['accounts']}: fidelity the thief had"
        told.append(Row(what, f"{row['fidelity the thief had']:.1%}", budget, int(row["fired"].split()[-1])))
    return told
