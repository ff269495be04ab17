"""What the radii share: checks, scaling by sigma, rounding down, and a search for a maximum, all elementwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray

from leakmeter.errors import UsageError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Reals = TypeVar("Reals", float, FloatArray, torch.Tensor)


class RadiusBound(Protocol):
    """A radius in l2 from a lower bound on the top class's probability and an upper bound on the others'."""

    def __call__(self, p1: Reals, p2: Reals, sigma: float) -> Reals:
        """Elementwise."""


# float64 puts the formulas off by some 1e-14, either way; a certificate may only err towards the smaller radius.
ROUND_DOWN = 1 - 2.0**-40
_GOLDEN = (np.sqrt(5) - 1) / 2


def to_numpy(value: object) -> FloatArray:
    """A number, array or tensor as float64."""
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    return np.asarray(value, dtype=np.float64)


def scaled_radius(unit: Callable[[FloatArray, FloatArray], FloatArray], p1: Reals, p2: Reals, sigma: float) -> Reals:
    """The radius at noise `sigma`, rounded down, from a formula for sigma 1 that is given rows with p1 > p2 only.

    All bounds here grow in proportion to sigma. Tensors give a tensor, arrays an array, numbers a number.
    """
    a, b = np.broadcast_arrays(to_numpy(p1), to_numpy(p2))
    if not ((a >= 0) & (b >= 0) & (a + b <= 1)).all():
        raise UsageError("expected probabilities p1, p2 >= 0 with p1 + p2 <= 1, got others; pass p2 = min(p2, 1 - p1)")
    if not 0 < sigma < np.inf:
        raise UsageError(f"expected a finite sigma above 0, got {sigma}")
    radius = np.zeros(a.shape)
    above = a > b
    with np.errstate(divide="ignore", over="ignore", invalid="ignore", under="ignore"):
        radius[above] = unit(a[above], b[above])
    radius *= sigma * ROUND_DOWN
    if isinstance(p1, torch.Tensor) or isinstance(p2, torch.Tensor):
        return torch.from_numpy(radius)
    return cast(Reals, radius if radius.ndim else float(radius))


def maximum(objective: Callable[[FloatArray], FloatArray], low: FloatArray, high: FloatArray) -> FloatArray:
    """The largest value of a single-peaked function on each interval, by golden section.

    Each value found is one the function takes, so where it is a valid radius at every argument the result is too.
    """
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = objective(left), objective(right)
    for _ in range(60):
        go_left = at_left >= at_right
        low, high = np.where(go_left, low, left), np.where(go_left, right, high)
        fresh = np.where(go_left, high - _GOLDEN * (high - low), low + _GOLDEN * (high - low))
        at_fresh = objective(fresh)
        left, right = np.where(go_left, fresh, right), np.where(go_left, left, fresh)
        at_left, at_right = np.where(go_left, at_fresh, at_right), np.where(go_left, at_left, at_fresh)
    return np.maximum(at_left, at_right)


def half_log_ratio(p1: FloatArray, p2: FloatArray) -> FloatArray:
    """½ ln(p1/p2), exact to rounding also where p1 and p2 nearly agree; infinite at p2 = 0."""
    return 0.5 * np.log1p((p1 - p2) / p2)
