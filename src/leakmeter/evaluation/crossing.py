"""Where a rising curve of quality against queries reaches a level: between two of its points, and no closer.

Between the points nothing was measured. A straight line through them, over queries or their logarithm, runs below a
curve that flattens, and so overstates what a copy costs.
"""

from __future__ import annotations

from collections.abc import Sequence

Curve = Sequence[tuple[int, float]]
"""Queries, rising, each with the quality of the copy (fidelity or accuracy)."""
Band = Sequence[tuple[int, float, float]]
"""Queries, rising, each with the two ends of an interval."""


def rising(curve: Curve) -> list[tuple[int, float]]:
    """The nearest curve that never falls (least squares, by pooling adjacent violators)."""
    blocks: list[tuple[float, int]] = []  # mean, points
    for _, value in curve:
        blocks.append((value, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (a, m), (b, n) = blocks[-2:]
            blocks[-2:] = [((a * m + b * n) / (m + n), m + n)]
    values = [mean for mean, points in blocks for _ in range(points)]
    return [(queries, value) for (queries, _), value in zip(curve, values, strict=True)]


def crossing(curve: Curve, level: float) -> tuple[int, int] | None:
    """The fewest and the most queries it takes to reach `level`: the points about it; None: it never does.

    The fewest is one more than the last point below the level, or 1 where already the first is not.
    """
    before = 0
    for queries, value in rising(curve):
        if value >= level:
            return before + 1, queries
        before = queries
    return None


def crossing_interval(band: Band, level: float) -> tuple[int, int | None]:
    """Between how many queries the true curve, which rises, reaches `level`; None: no upper end.

    If each end of each interval is wrong with probability a, each end of this one is, however many points there are:
    only the interval at the first point above the level, or the last one below it, can mislead.
    """
    low, high = 1, None
    for queries, _, upper in band:
        if upper >= level:
            break
        low = queries + 1
    for queries, lower, _ in reversed(band):
        if lower < level:
            break
        high = queries
    return low, high
