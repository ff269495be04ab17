"""The Neyman–Pearson radius of Cohen et al. (2019), theorem 1: no radius from p1 and p2 alone can be larger."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from leakmeter.certificates.numeric import FloatArray, Reals, scaled_radius


def tight_radius(p1: Reals, p2: Reals, sigma: float) -> Reals:
    """σ/2 · (Φ⁻¹(p1) − Φ⁻¹(p2)) in l2, zero where p1 <= p2, never above the exact value.

    Args:
        p1: at most the probability of the top class under the noise.
        p2: at least the probability of every other class.
        sigma: the noise's standard deviation.
    """
    return scaled_radius(_unit, p1, p2, sigma)


def _unit(p1: FloatArray, p2: FloatArray) -> FloatArray:
    z1, z2 = ndtri(p1), ndtri(p2)
    middle, half = (z1 + z2) / 2, (z1 - z2) / 2
    # Where the two quantiles nearly agree their difference is mostly rounding. There the gap p1 - p2, which float64
    # holds exactly, is the density at the middle times the width, and three terms of Taylor's series are enough.
    close = half * np.maximum(1, np.abs(middle)) < 1e-2
    m2, h2 = middle[close] ** 2, half[close] ** 2
    series = 1 + (m2 - 1) * h2 / 6 + (m2**2 - 6 * m2 + 3) * h2**2 / 120
    density = np.exp(-m2 / 2) / np.sqrt(2 * np.pi)
    half[close] = (p1 - p2)[close] / (2 * density * series)
    return half
