"""A confidence sequence by betting: look after every sample, stop when decided, and still be wrong at most alpha often.

A gambler who starts with 1 bets on every vote with the Krichevsky–Trofimov forecaster (k + ½)/(t + 1). Against odds
p he then holds, after k of t votes, W = B(k+½, t−k+½) / (B(½, ½)·p^k·(1−p)^(t−k)). At the true p this is a fair game,
so it ever reaches 1/alpha with probability at most alpha (Ville, 1939), and every p at which W >= 1/alpha can be
ruled out at any time, however the time was chosen. (Voráček, "Treatment of statistical estimation problems in
randomized smoothing", 2024, uses such sequences for smoothing.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, xlog1py, xlogy

from leakmeter.certificates.numeric import FloatArray, IntArray

# betaln is off by some 1e-11 at a million votes; asking for this much more wealth keeps that from mattering.
_SLACK = 1e-9


def log_wealth(k: FloatArray, t: FloatArray, p: FloatArray | float) -> FloatArray:
    """The logarithm of the gambler's wealth against odds p."""
    stake = betaln(k + 0.5, t - k + 0.5) - betaln(0.5, 0.5)
    return np.asarray(stake - xlogy(k, p) - xlog1py(t - k, -np.asarray(p)))


def lower_bound(k: IntArray, t: IntArray, alpha: float) -> FloatArray:
    """The least p that k of t votes leave possible: below the truth at all times at once, but for probability alpha."""
    wins, votes = np.broadcast_arrays(k.astype(np.float64), t.astype(np.float64))
    ruin = _ruin(alpha)
    low, high = np.zeros(wins.shape), wins / np.maximum(votes, 1)
    for _ in range(60):
        middle = (low + high) / 2
        out = log_wealth(wins, votes, middle) >= ruin
        low, high = np.where(out, middle, low), np.where(out, high, middle)
    return low


@dataclass(frozen=True, eq=False)
class StoppingRule:
    """At which counts to stop: entry i is for `every`·(i+1) votes, the last for all of them."""

    every: int
    above: IntArray
    """With so many votes the probability passes the target."""
    below: IntArray
    """With so few it stays short of it; -1: never yet."""

    @classmethod
    def for_target(cls, p: float, n: int, alpha: float, *, every: int) -> StoppingRule:
        """Whole-number thresholds for the question whether a probability passes `p`, over at most `n` votes."""
        t = np.minimum(np.arange(every, n + every, every), n).astype(np.float64)
        ruin = _ruin(alpha)
        # Along k the wealth falls until k = tp and rises after it, so each side has one crossing to bisect for.
        above = _first(lambda k: log_wealth(k, t, p) >= ruin, np.floor(t * p), t + 1)
        below = t - _first(lambda k: log_wealth(t - k, t, p) >= ruin, np.floor(t * (1 - p)), t + 1)
        return cls(every, above.astype(np.int64), below.astype(np.int64))

    def decided(self, k: int, t: int) -> bool:
        """Whether k of t votes settle it."""
        look = -(-t // self.every) - 1
        return bool(k >= self.above[look] or k <= self.below[look])


def samples_to_reach(p: float, alpha: float) -> int:
    """The fewest votes that can rule out every probability up to `p`: all of them agree."""
    low, high = 0, 1
    while not _all_agree(high, p) >= _ruin(alpha):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _all_agree(middle, p) >= _ruin(alpha) else (middle, high)
    return high


def _all_agree(t: int, p: float) -> float:
    return float(log_wealth(np.array(float(t)), np.array(float(t)), p))


def _ruin(alpha: float) -> float:
    return float(np.log(1 / alpha)) + _SLACK


def _first(holds: Callable[[FloatArray], NDArray[np.bool_]], low: FloatArray, high: FloatArray) -> FloatArray:
    """The least whole number in (low, high] from which on it holds; `high` where it never does."""
    while (high - low > 1).any():
        middle = np.floor((low + high) / 2)
        there = holds(middle)
        low, high = np.where(there, low, middle), np.where(there, middle, high)
    return high
