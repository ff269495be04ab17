"""Confidence intervals; every one says how it was made and how sure it is.

Which is for what: `exact` for one copy on the population its test inputs were drawn from; `attack_mean` for what an
attack reaches on average, over seeds and inputs; `share_of_tries` (tries.py) for how often it reaches a line;
`median_interval` for a ratio over pairs of runs, or whatever else has no bounds. None assumes that seeds are normal.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot
from statistics import fmean

from pydantic import BaseModel, ConfigDict

from leakmeter.errors import UsageError
from leakmeter.evaluation.bounded import mean_bounds

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


def exact(k: float, n: int, confidence: float = CONFIDENCE) -> Interval:
    """Clopper and Pearson's two-sided interval: never less than the stated confidence.

    `k` need not be whole: a sum of `n` values between 0 and 1 spreads no more than as many successes and failures.
    """
    from scipy.special import betainccinv, betaincinv

    _check(k, n)
    tail = (1 - confidence) / 2
    low = 0.0 if k == 0 else float(betaincinv(k, n - k + 1, tail))
    high = 1.0 if k == n else float(betainccinv(k + 1, n - k, tail))
    return Interval(low=low, high=high, n=n, method="clopper-pearson", confidence=confidence)


def certified_share(k: int, n: int, alpha: float) -> Interval:
    """The share of all inputs that would be certified, where `k` of `n` were.

    A certificate is wrong with probability at most alpha, so that at least (share - alpha) / (1 - alpha) of all inputs
    really are as robust as it says: the lower end is that.
    """
    found = exact(k, n)
    low = max(0.0, (found.low - alpha) / (1 - alpha))
    return found.model_copy(update={"low": low, "method": f"{found.method}, less alpha below"})


def attack_mean(rates: Sequence[float], inputs: int, confidence: float = CONFIDENCE) -> Interval:
    """What an attack reaches on average over all seeds and all inputs, from one rate a seed on the same test inputs.

    Nothing is assumed of how seeds differ, so that few seeds give a wide interval, and one seed next to none. The
    error of the seeds (`bounded.py`) and that of the shared inputs (`exact`) are independent: their distances from the
    mean add like standard errors (Zou and Donner, 2008).
    """
    low, high = mean_bounds(rates, (1 - confidence) / 2)
    mean = min(max(fmean(rates), low), high)
    shared = exact(mean * inputs, inputs, confidence)
    return Interval(
        low=max(0.0, mean - hypot(mean - low, mean - shared.low)),
        high=min(1.0, mean + hypot(high - mean, shared.high - mean)),
        n=len(rates),
        method=f"gaffke over seeds, clopper-pearson over {inputs} shared inputs",
        confidence=confidence,
    )


def median_interval(lows: Sequence[float], highs: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """The median of a value known between `lows` and `highs` in each of some runs, by their ranks.

    Where there are too few runs for the confidence asked for (fewer than six for 95 %) it is the whole range, with the
    confidence that really has: 75 % for three, none for one.
    """
    from scipy.stats import binom

    n = len(lows)
    if n == 0 or n != len(highs):
        raise UsageError(f"expected as many lower as upper ends and at least one, got {n} and {len(highs)}")
    rank = max(1, int(binom.ppf((1 - confidence) / 2, n, 0.5)))
    return Interval(
        low=sorted(lows)[rank - 1],
        high=sorted(highs)[n - rank],
        n=n,
        method="ranks, for the median",
        confidence=1 - 2 * float(binom.cdf(rank - 1, n, 0.5)),
    )


def _check(k: float, n: int) -> None:
    if not 0 <= k <= n or n == 0:
        raise UsageError(f"expected 0 <= k <= n with n of at least 1, got k={k} and n={n}")
