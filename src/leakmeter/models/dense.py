"""Fully connected networks."""

from __future__ import annotations

import math

from torch import nn


def linear(shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """One affine map; images are flattened."""
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), classes))


def mlp(shape: tuple[int, ...], classes: int, width: int = 128) -> nn.Sequential:
    """One hidden layer of `width` units; images are flattened."""
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), width), nn.ReLU(), nn.Linear(width, classes))
