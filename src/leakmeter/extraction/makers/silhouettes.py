"""Mirror-symmetric filled objects with shading and pattern: vases, coats, bottles, bags."""

from __future__ import annotations

import torch
from torch import Tensor

from leakmeter.extraction.makers.canvas import (
    Shape,
    axis,
    chance,
    normal,
    ramp,
    smooth_curve,
    smooth_field,
    uniform,
)


def silhouettes(n: int, shape: Shape, generator: torch.Generator) -> Tensor:
    """One object an image on black, described row by row: half-width, a lean, perhaps a gap in the middle."""
    channels, height, width = shape
    side = (1, max(height, width), max(height, width))
    mask = _mask(n, side[1], generator)
    lying = chance(generator, 0.3, n, 1, 1).bool()
    mask = torch.where(lying, mask.transpose(1, 2), mask)[:, :height, :width]
    colour = uniform(generator, n, channels, 1, 1, low=0.15) + 0.2 * normal(generator, n, channels, 1, 1) ** 2
    return (colour * _cloth(n, shape, generator)).clamp_(0, 1).mul_(mask[:, None])


def _mask(n: int, size: int, generator: torch.Generator) -> Tensor:
    rows = axis(size, generator.device)
    top, bottom = uniform(generator, n, 1, low=-1.05, high=-0.2), uniform(generator, n, 1, low=0.2, high=1.05)
    half = smooth_curve(uniform(generator, n, 6, low=0.05, high=0.85), size)
    lean = smooth_curve(0.15 * normal(generator, n, 3), size)
    gap = smooth_curve(uniform(generator, n, 4, low=-0.5, high=0.3), size) * chance(generator, 0.4, n, 1)
    distance = (rows - lean[..., None]).abs_()  # [image, row, column]
    within = torch.minimum(half[..., None] - distance, distance - gap[..., None])
    upright = torch.minimum(rows - top, bottom - rows)
    return ramp(torch.minimum(within, upright[..., None]), 3 / size)


def _cloth(n: int, shape: Shape, generator: torch.Generator) -> Tensor:
    """Shading at two scales, and for a third of the images stripes one way or the other."""
    _, height, width = shape
    coarse = smooth_field(generator, n, 1, shape, 4) * uniform(generator, n, 1, 1, 1, high=0.4)
    fine = smooth_field(generator, n, 1, shape, 14) * uniform(generator, n, 1, 1, 1, high=0.4)
    phase = uniform(generator, n, 1, 1, 1, high=6.3)
    pitch = uniform(generator, n, 1, 1, 1, low=4, high=30)
    way = chance(generator, 0.5, n, 1, 1, 1)
    along = way * axis(height, generator.device)[:, None] + (1 - way) * axis(width, generator.device)
    stripes = (pitch * along + phase).sin_().mul_(0.5 * chance(generator, 0.33, n, 1, 1, 1))
    return coarse.add_(fine).add_(stripes).add_(1)
