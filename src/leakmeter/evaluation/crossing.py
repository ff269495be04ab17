"""Where a curve of quality against queries first reaches a level."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log

Curve = Sequence[tuple[int, float]]
"""Queries, rising, each with the quality of the copy (fidelity or accuracy)."""


def crossing(curve: Curve, level: float) -> float | None:
    """Queries until the curve first reaches `level`, between two points straight over log queries; None: never."""
    before: tuple[int, float] | None = None
    for queries, value in curve:
        if value >= level:
            if before is None:
                return float(queries)
            share = (level - before[1]) / (value - before[1])
            return exp(log(before[0]) + share * (log(queries) - log(before[0])))
        before = (queries, value)
    return None
