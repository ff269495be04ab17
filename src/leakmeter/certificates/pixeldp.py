"""The radii of PixelDP (Lecuyer et al., 2019): a prediction by an (ε, δ)-private mechanism cannot change too much.

Both ask for p1 >= e^2ε·p2 + (1 + e^ε)·δ and differ in how much noise (ε, δ) costs.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr, ndtr

from leakmeter.certificates.numeric import FloatArray, Reals, half_log_ratio, maximum, scaled_radius
from leakmeter.certificates.tight import tight_radius

_LARGEST = 40.0  # stands in for infinity in units of sigma, or of ε, where p2 = 0


def pixeldp_radius(p1: Reals, p2: Reals, sigma: float) -> Reals:
    """The l2 radius σε/√(2 ln(1.25/δ)) of the classic Gaussian mechanism (0 < ε <= 1) at the best ε and δ.

    Args:
        p1: at most the probability of the top class under the noise.
        p2: at least the probability of every other class.
        sigma: the noise's standard deviation.
    """
    return scaled_radius(_classic, p1, p2, sigma)


def pixeldp_analytic_radius(p1: Reals, p2: Reals, sigma: float) -> Reals:
    """The same argument with the exact (ε, δ) of Gaussian noise (Balle and Wang, 2018), ε unlimited.

    It can pass the Rényi radius, which uses other information; it never passes the tight one. Takes what
    `pixeldp_radius` takes.
    """
    return scaled_radius(_analytic, p1, p2, sigma)


def _classic(p1: FloatArray, p2: FloatArray) -> FloatArray:
    def radius(epsilon: FloatArray) -> FloatArray:
        return np.asarray(epsilon / np.sqrt(2 * np.log(1.25 / _delta_allowed(p1, p2, epsilon))))

    return maximum(radius, np.zeros_like(p1), np.minimum(half_log_ratio(p1, p2), 1))


def _analytic(p1: FloatArray, p2: FloatArray) -> FloatArray:
    largest = np.minimum(tight_radius(p1, p2, 1.0), _LARGEST)

    def radius(epsilon: FloatArray) -> FloatArray:
        allowed, low, high = _delta_allowed(p1, p2, epsilon), np.zeros_like(p1), largest
        for _ in range(60):  # δ grows with the distance: bisect for the largest distance that is allowed
            middle = (low + high) / 2
            inside = _delta_needed(epsilon, middle) <= allowed
            low, high = np.where(inside, middle, low), np.where(inside, high, middle)
        return low

    at_zero = radius(np.zeros_like(p1))  # the best where p2 = 1 - p1, and the open search never reaches it
    elsewhere = maximum(radius, np.zeros_like(p1), np.minimum(half_log_ratio(p1, p2), _LARGEST))
    return np.maximum(at_zero, elsewhere)


def _delta_allowed(p1: FloatArray, p2: FloatArray, epsilon: FloatArray) -> FloatArray:
    return np.asarray(np.maximum((p1 - p2) - p2 * np.expm1(2 * epsilon), 0) / (1 + np.exp(epsilon)))


def _delta_needed(epsilon: FloatArray, distance: FloatArray) -> FloatArray:
    """The δ of noise 1 for a shift by `distance`, rounded up."""
    near = ndtr(distance / 2 - epsilon / distance)
    far = np.exp(epsilon + log_ndtr(-distance / 2 - epsilon / distance))
    return np.asarray(near - far + 1e-15 * (1 + epsilon) * near)
