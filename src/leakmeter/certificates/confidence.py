"""From counts to probabilities that hold with confidence, and from many certificates to one statement."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from scipy.special import betainccinv, betaincinv
from scipy.stats import binom

from leakmeter.certificates.numeric import FloatArray, IntArray
from leakmeter.errors import UsageError

RunnerUp = Literal["rest", "classes"]


def clopper_pearson(k: int | IntArray, n: int | IntArray, alpha: float | FloatArray) -> tuple[FloatArray, FloatArray]:
    """The lower and the upper bound on a probability seen `k` times in `n`, each wrong with probability at most alpha.

    Each bound is one-sided; for an interval that holds on both sides with confidence 1 - alpha pass alpha / 2.
    """
    hits, total, error = (np.asarray(value, dtype=np.float64) for value in (k, n, alpha))
    if not np.all((hits >= 0) & (hits <= total) & (total > 0)):
        raise UsageError("expected counts with 0 <= k <= n and n >= 1, got others")
    if not np.all((error > 0) & (error < 1)):
        raise UsageError("expected alpha between 0 and 1, got others")
    lower = np.where(hits == 0, 0.0, betaincinv(np.maximum(hits, 1), total - hits + 1, error))
    upper = np.where(hits == total, 1.0, betainccinv(hits + 1, np.maximum(total - hits, 1), error))
    return lower[()], upper[()]  # single counts give NumPy floats


def top_two(counts: IntArray, top: IntArray, alpha: float, runner_up: RunnerUp) -> tuple[FloatArray, FloatArray]:
    """A lower bound on each row's top class and an upper bound on all others, jointly wrong at most alpha often.

    Args:
        counts: votes, one row an example, one column a class, over a number of samples fixed in advance.
        top: the class of each row, chosen without looking at these votes.
        alpha: the probability with which a row's pair may be wrong.
        runner_up: "rest" spends all of alpha on the top class and takes 1 - p1 for the others; "classes" bounds every
            class, each at alpha / classes (Bonferroni), which is better where the other votes are spread out.
    """
    rows, n = np.arange(len(counts)), counts.sum(1)
    if runner_up == "rest":
        p1, _ = clopper_pearson(counts[rows, top], n, alpha)
        return p1, 1 - p1
    each = alpha / counts.shape[1]
    lower, upper = clopper_pearson(counts, n[:, None], each)
    upper[rows, top] = 0
    p1 = lower[rows, top]
    return p1, np.minimum(upper.max(1), 1 - p1)


def samples_needed(alpha: float) -> int:
    """The fewest samples that certify anything: all agree, and the lower bound alpha^(1/n) passes one half."""
    return math.floor(math.log2(1 / alpha)) + 1


def high_probability_accuracy(certified: int, total: int, alpha: float, *, rho: float = 0.001) -> float:
    """A certified accuracy of this data set that holds with probability 1 - rho.

    Each of `total` certificates is wrong with probability at most alpha, independently of the others; how many are is
    below the binomial quantile with probability 1 - rho, and all of those are taken to be among the `certified`.
    The exact form of Cohen et al. (2019), appendix D. The plain fraction holds in expectation only up to alpha.
    """
    if not 0 <= certified <= total or total < 1:
        raise UsageError(f"expected 0 <= certified <= total and total >= 1, got {certified} of {total}")
    wrong = int(binom.ppf(1 - rho, total, alpha))
    return max(0, certified - wrong) / total
