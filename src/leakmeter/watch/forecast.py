"""When a copy reaches the line, if its owner goes on asking as now.

What a copy still gets wrong falls about as a power of the queries. The law is fitted to the points measured, and again
to points drawn from their intervals: the spread of those fits is the interval. It tells of chance in the test inputs,
not of a thief who changes.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from leakmeter.seeds import derive
from leakmeter.settings import Settings

DAY = 86_400.0
_DRAWS = 400
_LEAST = 1e-4  # no copy is taken to be wrong less often than this


class Forecast(Settings):
    """Queries and days until the line, counted from the last query; None: not at this rate of growth."""

    line: float
    queries: int | None
    """Queries in all at which the line is reached."""
    queries_low: int | None
    queries_high: int | None
    rate: float | None
    """Queries a day over the later half of its queries; None: all came at one moment."""
    days: float | None
    days_low: float | None
    days_high: float | None

    @property
    def soon(self) -> bool:
        """Whether that is within a day."""
        return self.days is not None and self.days <= 1


def forecast(
    points: list[tuple[int, float]], inputs: int, times: NDArray[np.float64], line: float, seed: int = 0
) -> Forecast | None:
    """From (queries, fidelity) measured on `inputs` test inputs; None with fewer than two points.

    Args:
        points: rising in queries.
        inputs: test inputs behind each fidelity.
        times: of the queries, in seconds, rising.
        line: the fidelity that must not be reached.
        seed: of the drawn fits.
    """
    if len(points) < 2 or points[-1][1] >= line:
        return None
    n = np.array([queries for queries, _ in points], dtype=np.float64)
    right = np.array([fidelity for _, fidelity in points])
    draws = np.random.default_rng(derive(seed, "forecast"))
    drawn = draws.beta(right * inputs + 0.5, (1 - right) * inputs + 0.5, size=(_DRAWS, len(n)))
    ends = np.sort([reached(n, rates, line) for rates in drawn])
    low, high = float(ends[int(0.025 * _DRAWS)]), float(ends[int(0.975 * _DRAWS) - 1])
    middle, rate = reached(n, right, line), _rate(times)
    return Forecast(
        line=line,
        queries=_whole(middle),
        queries_low=_whole(low),
        queries_high=_whole(high),
        rate=rate,
        days=_days(middle, n[-1], rate),
        days_low=_days(low, n[-1], rate),
        days_high=_days(high, n[-1], rate),
    )


def reached(n: NDArray[np.float64], right: NDArray[np.float64], line: float) -> float:
    """Queries at which the fitted law reaches the line; infinity where copies do not get better."""
    wrong = np.log(np.maximum(1 - right, _LEAST))
    slope, start = np.polyfit(np.log(n), wrong, 1)
    if slope >= -1e-3:
        return math.inf
    return max(float(n[-1]), math.exp(min(60.0, (math.log(max(1 - line, _LEAST)) - start) / slope)))


def _rate(times: NDArray[np.float64]) -> float | None:
    later = times[len(times) // 2 :]
    span = float(later[-1] - later[0]) if len(later) > 1 else 0.0
    return None if span <= 0 else (len(later) - 1) / span * DAY


def _whole(value: float) -> int | None:
    return None if value > 1e12 else math.ceil(value)


def _days(queries: float, spent: float, rate: float | None) -> float | None:
    return None if rate is None or queries > 1e12 else max(0.0, queries - spent) / rate
