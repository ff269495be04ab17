"""Textures that fill the picture: plane waves and noise over many scales."""

from __future__ import annotations

import torch
from torch import Tensor

from leakmeter.extraction.makers.canvas import Shape, linear_basis, normal, smooth_field, uniform


def textures(n: int, shape: Shape, generator: torch.Generator) -> Tensor:
    """A mixture of three gratings and noise at three scales, with random contrast and level."""
    channels = shape[0]
    picture = _gratings(n, shape, generator)
    for knots in (3, 7, 15):
        picture += smooth_field(generator, n, channels, shape, knots) * uniform(generator, n, 1, 1, 1)
    contrast = uniform(generator, n, 1, 1, 1, low=0.05, high=0.4)
    return picture.mul_(contrast).add_(uniform(generator, n, channels, 1, 1)).clamp_(0, 1)


def _gratings(n: int, shape: Shape, generator: torch.Generator) -> Tensor:
    waves = 3
    coefficients = normal(generator, n, waves, 3) * 8
    fields = (coefficients @ linear_basis(shape, generator.device)).sin_()
    mix = normal(generator, n, shape[0], waves) * 0.5
    return (mix @ fields).reshape(n, *shape)
