"""From the l2 radius that Gaussian noise certifies to a radius in linf."""

from __future__ import annotations

import math

from leakmeter.certificates.numeric import ROUND_DOWN, Reals
from leakmeter.errors import UsageError


def linf_radius(l2_radius: Reals, dimension: int) -> Reals:
    """The largest linf ball inside the l2 ball: radius / √dimension, where dimension counts the input's numbers."""
    if dimension < 1:
        raise UsageError(f"expected a dimension of at least 1, got {dimension}")
    return l2_radius * (ROUND_DOWN / math.sqrt(dimension))
