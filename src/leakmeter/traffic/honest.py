"""Honest users with habits: each cares for some classes, asks a few things again and again, and seldom much."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from leakmeter.oracle.oracle import Oracle
from leakmeter.seeds import stream
from leakmeter.traffic.client import START, Client, spread
from leakmeter.victims.victim import Victim

_FAVOURITES = 0.9  # of a user's queries are about the classes it cares for


def honest_clients(
    victim: Victim,
    pool: Tensor,
    count: int,
    *,
    view: str = "probs",
    queries: int = 200,
    days: float = 10.0,
    again: float = 0.3,
    seed: int = 0,
    start: float = START,
) -> list[Client]:
    """So many users who ask natural inputs.

    Args:
        victim: whom they ask.
        pool: natural inputs.
        count: how many users.
        view: what they are shown.
        queries: of a user in the middle; they differ by a factor of about two.
        days: over which they ask.
        again: the share of queries that repeat an earlier one.
        seed: of everything here.
        start: of the first day.
    """
    labels = Oracle(victim, "labels").judge(pool).labels
    return [
        _user(victim, pool, labels, number, view, queries, days, again, stream(seed, "honest", number), start)
        for number in range(count)
    ]


def _user(
    victim: Victim,
    pool: Tensor,
    labels: Tensor,
    number: int,
    view: str,
    queries: int,
    days: float,
    again: float,
    draws: torch.Generator,
    start: float,
) -> Client:
    n = max(5, round(queries * math.exp(0.7 * float(torch.randn(1, generator=draws)))))
    classes = labels.bincount().nonzero()[:, 0]
    liked = classes[torch.randperm(len(classes), generator=draws)[: max(1, len(classes) // 4)]]
    weights = torch.where(torch.isin(labels, liked), 1.0, 1e-9)
    share = float(weights.sum()) or 1.0
    weights = weights / share * _FAVOURITES + (1 - _FAVOURITES) / len(labels)
    picked = torch.multinomial(weights, n, replacement=True, generator=draws)
    for place in (torch.rand(n, generator=draws) < again).nonzero()[:, 0].tolist():
        if place:
            picked[place] = picked[int(torch.randint(place, (1,), generator=draws))]
    x = pool[picked]
    return Client(f"user-{number}", x, Oracle(victim, view).query(x), spread(n, days, draws, start))
