"""The 1-layer network of Milli et al. section 4: multinomial logistic regression."""

from __future__ import annotations

import math

from torch import nn


def linear(shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """One affine map; images are flattened."""
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), classes))
