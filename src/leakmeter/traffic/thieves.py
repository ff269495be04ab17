"""Thieves: an attack of this package at work, its queries and answers kept, and the copy it really got."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from leakmeter.evaluation.score import Reference
from leakmeter.extraction.base import extract
from leakmeter.extraction.given import Given, copy_from
from leakmeter.oracle.oracle import Oracle
from leakmeter.seeds import derive, stream
from leakmeter.traffic.client import START, Client, spread
from leakmeter.victims.victim import Victim


def thief(
    victim: Victim,
    attack: str,
    budget: int,
    *,
    name: str | None = None,
    view: str = "probs",
    test: Reference | None = None,
    days: float = 5.0,
    seed: int = 0,
    start: float = START,
    **options: Any,
) -> Client:
    """A thief who runs an attack.

    Args:
        victim: whom it copies.
        attack: of the registry, or `uniform`: points of the box, learned by the choosing student.
        budget: how many queries.
        name: of the client; None: after the attack and the seed.
        view: what it is shown.
        test: on what its real copy is scored; None: it is not.
        days: over which it asks; many make it a slow one.
        seed: of the attack.
        start: of the first day.
        **options: of the attack.
    """
    called = name or f"{attack}-{seed}"
    pieces: list[Tensor] = []
    oracle = Oracle(victim, view, budget, observer=lambda _, x, __: pieces.append(x.clone()))
    if attack == "uniform":
        x = victim.spec.sample(budget, stream(seed, "uniform"))
        answer = oracle.query(x)
        copy = copy_from(Given(x.float(), answer), victim.spec, derive(seed, "uniform"), **options)
    else:
        copy = extract(attack, oracle, seed=seed, **options).substitute
    asked = torch.cat(pieces)
    answers = Oracle(victim, view).query(asked)  # the same answers: a victim without noise says the same twice
    fidelity = None if test is None else test.score(copy).fidelity
    times = spread(len(asked), days, stream(seed, "times", called), start)
    return Client(called, asked, answers, times, attack=attack, fidelity=fidelity)
