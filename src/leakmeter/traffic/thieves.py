"""Thieves: an attack of this package at work, its queries and answers kept, and the copy it really got."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from leakmeter.errors import UsageError
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
    stops: Sequence[int] = (),
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
        stops: numbers of answers at which its copy is scored too.
        **options: of the attack.
    """
    called = name or f"{attack}-{seed}"
    pieces: list[Tensor] = []
    oracle = Oracle(victim, view, budget, observer=lambda _, x, __: pieces.append(x.clone()))
    if attack == "uniform":
        curve = _uniform(oracle, budget, test, stops, seed, options)
    else:
        found = extract(attack, oracle, seed=seed, test=test, stops=stops, **options)
        curve = tuple((point.queries, point.score.fidelity) for point in found.curve if point.score is not None)
    if not pieces:
        raise UsageError(f"the attack '{attack}' asked nothing: {budget:,} queries are too few for its first turn")
    asked = torch.cat(pieces)
    answers = Oracle(victim, view).query(asked)  # the same answers: a victim without noise says the same twice
    fidelity = curve[-1][1] if test is not None and curve else None
    times = spread(len(asked), days, stream(seed, "times", called), start)
    return Client(called, asked, answers, times, attack=attack, fidelity=fidelity, curve=curve)


def _uniform(
    oracle: Oracle, budget: int, test: Reference | None, stops: Sequence[int], seed: int, options: dict[str, Any]
) -> tuple[tuple[int, float], ...]:
    """Asks points of the box; what the choosing student makes of them, where that is to be scored."""
    x = oracle.spec.sample(budget, stream(seed, "uniform")).float()
    given = Given(x, oracle.query(x))
    ends = [] if test is None else sorted({*(stop for stop in stops if stop < budget), budget})

    def fidelity(n: int) -> float:
        assert test is not None
        return test.score(copy_from(given.first(n), oracle.spec, derive(seed, "uniform"), **options)).fidelity

    return tuple((n, fidelity(n)) for n in ends)
