"""Detectors of extraction, replayed over what an attack asked: at which query would they have fired?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeGuard

from torch import Tensor

from leakmeter.registry import Registry
from leakmeter.settings import from_text

LIMIT = 5000
"""Queries of an attack that detectors see: the first ones."""


class Detector(Protocol):
    """Watches the queries of one client in the order they come."""

    queries: int
    """Rows seen."""
    fired_at: int | None
    """The query at which the alarm was first raised, counted from 1; None: not yet."""

    def observe(self, x: Tensor, labels: Tensor) -> None:
        """Sees some queries and the labels they were answered with."""


class Taught(Detector, Protocol):
    """A detector that must see honest queries first; until then it raises no alarm."""

    def learn(self, x: Tensor, labels: Tensor) -> None:
        """Sees honest queries and the labels they were answered with."""


DETECTORS: Registry[Callable[..., Detector | Taught]] = Registry(
    "detector",
    {
        "prada": "leakmeter.detectors.prada:Prada",
        "hoda": "leakmeter.detectors.hoda:Hoda",
        "seat": "leakmeter.detectors.seat:Seat",
        "mmd": "leakmeter.detectors.mmd:Mmd",
    },
    "leakmeter.detectors",
)


def make_detector(text: str) -> Detector:
    """A fresh detector: its name, and behind a colon its numbers where they are not to be the usual ones."""
    return from_text(DETECTORS, text)


def prepared(text: str, honest: tuple[Tensor, Tensor] | None) -> Detector:
    """A fresh detector that has seen the honest queries, with their labels, if it learns from such."""
    detector = make_detector(text)
    if honest is not None and teachable(detector):
        detector.learn(*honest)
    return detector


def teachable(detector: Detector) -> TypeGuard[Taught]:
    """Whether it learns from honest queries."""
    return hasattr(detector, "learn")


def flat(x: Tensor) -> Tensor:
    """One row of numbers a query: distances need one also where a value is missing, and 0 is as good as any."""
    rows = x.flatten(1)
    return rows.masked_fill(rows.isnan(), 0.0)
