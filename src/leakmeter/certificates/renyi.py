"""The radius of Li et al. (2019), "Certified adversarial robustness with additive noise" (STN), theorem 2."""

from __future__ import annotations

import numpy as np

from leakmeter.certificates.numeric import FloatArray, Reals, half_log_ratio, maximum, scaled_radius


def renyi_radius(p1: Reals, p2: Reals, sigma: float) -> Reals:
    """The l2 radius from the Rényi divergence, its supremum taken over every order α > 1; never above the exact value.

    Args:
        p1: at most the probability of the top class under the noise.
        p2: at least the probability of every other class.
        sigma: the noise's standard deviation.
    """
    return scaled_radius(_unit, p1, p2, sigma)


def _unit(p1: FloatArray, p2: FloatArray) -> FloatArray:
    """The theorem with β = α − 1 and w = ½ ln(p1/p2), in a form that loses no digits.

    The power mean M of order 1 − α is ½(p1 + p2)·exp(−G) with G = ln cosh w + ln cosh(βw)/β, so the theorem reads
    L² = sup over β of −2/(1+β)·ln(1 − (p1+p2)(1 − e^−G)). Written with the powers p^(1−α) it subtracts nearly equal
    numbers as α → 1 or p1 → p2, and overstates the radius by 22 % at p1 = 0.5001.
    """
    w = half_log_ratio(p1, p2)
    both, rest = p1 + p2, np.maximum((1 - p1) - p2, 0)

    def squared(beta: FloatArray) -> FloatArray:
        g = _log_cosh(w) + _log_cosh(beta * w) / beta
        inside = rest + both * np.exp(-g)
        log = np.where(inside > 0.5, np.log1p(both * np.expm1(-g)), np.log(inside))
        return -2 / (1 + beta) * log

    return np.sqrt(maximum(squared, np.zeros_like(w), np.ones_like(w)))


def _log_cosh(x: FloatArray) -> FloatArray:
    """Ln cosh x for x >= 0, exact to rounding near 0 and without overflow."""
    near: FloatArray = np.log1p(2 * np.sinh(np.minimum(x, 1) / 2) ** 2)
    return np.where(x < 1, near, x + np.log1p(np.exp(-2 * x)) - np.log(2))
