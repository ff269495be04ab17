"""Detectors of extraction, replayed over what an attack asked: at which query would they have fired?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torch import Tensor

from leakmeter.errors import UsageError
from leakmeter.registry import Registry

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


DETECTORS: Registry[Callable[..., Detector]] = Registry(
    "detector", {"prada": "leakmeter.detectors.prada:Prada"}, "leakmeter.detectors"
)


def make_detector(text: str) -> Detector:
    """A fresh detector: its name, and behind a colon its threshold where it is not to be the usual one."""
    name, colon, threshold = text.partition(":")
    kind = DETECTORS[name]
    if not colon:
        return kind()
    try:
        return kind(float(threshold))
    except ValueError as error:
        raise UsageError(f"expected a threshold between 0 and 1 in '{text}', such as {name}:0.9") from error
