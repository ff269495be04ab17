"""Confidence intervals for rates and for means over seeds; every one says how it was made."""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist, fmean, stdev

from pydantic import BaseModel, ConfigDict

from leakmeter.errors import UsageError

CONFIDENCE = 0.95


class Interval(BaseModel):
    """Two ends, the number of observations behind them, and the method."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    low: float
    high: float
    n: int
    method: str
    confidence: float = CONFIDENCE

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


def wilson(k: int, n: int, confidence: float = CONFIDENCE) -> Interval:
    """Wilson's score interval for `k` successes in `n` trials."""
    _check(k, n)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    middle = (k + z * z / 2) / (n + z * z)
    half = z / (n + z * z) * sqrt(k * (n - k) / n + z * z / 4)
    low, high = (0.0 if k == 0 else middle - half), (1.0 if k == n else middle + half)
    return Interval(low=max(0.0, low), high=min(1.0, high), n=n, method="wilson", confidence=confidence)


def exact(k: int, n: int, confidence: float = CONFIDENCE) -> Interval:
    """Clopper and Pearson's two-sided interval: never less than the stated confidence."""
    from scipy.stats import beta

    _check(k, n)
    tail = (1 - confidence) / 2
    low = 0.0 if k == 0 else float(beta.ppf(tail, k, n - k + 1))
    high = 1.0 if k == n else float(beta.ppf(1 - tail, k + 1, n - k))
    return Interval(low=low, high=high, n=n, method="clopper-pearson", confidence=confidence)


def mean_interval(values: list[float], confidence: float = CONFIDENCE) -> Interval:
    """Student's t interval for the mean over seeds; a single seed gives no interval, only itself."""
    if not values:
        raise UsageError("expected at least one value to average, got none")
    mean, n = fmean(values), len(values)
    if n == 1:
        return Interval(low=mean, high=mean, n=1, method="single seed", confidence=confidence)
    from scipy.stats import t

    half = float(t.ppf((1 + confidence) / 2, n - 1)) * stdev(values) / sqrt(n)
    return Interval(low=mean - half, high=mean + half, n=n, method="student-t over seeds", confidence=confidence)


def _check(k: int, n: int) -> None:
    if not 0 <= k <= n or n == 0:
        raise UsageError(f"expected 0 <= k <= n with n of at least 1, got k={k} and n={n}")
