"""What the image makers share: coordinates, random numbers, soft edges, smooth noise.

Every picture is built from batched matrix products over the pixel grid (a line, a half-plane or a smooth field is
linear in a few numbers per image), so the cost is a few passes over the pixels and no loop over images.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

Shape = tuple[int, int, int]
"""Channels, height, width."""


def uniform(generator: torch.Generator, *size: int, low: float = 0.0, high: float = 1.0) -> Tensor:
    """Uniform numbers on the generator's device."""
    return torch.rand(size, generator=generator, device=generator.device) * (high - low) + low


def normal(generator: torch.Generator, *size: int) -> Tensor:
    """Standard normal numbers on the generator's device."""
    return torch.randn(size, generator=generator, device=generator.device)


def chance(generator: torch.Generator, probability: float, *size: int) -> Tensor:
    """Ones with that probability, else zeros."""
    return (uniform(generator, *size) < probability).float()


def axis(size: int, device: torch.device) -> Tensor:
    """Pixel centres along one side: the picture spans [-1, 1]."""
    return (torch.arange(size, device=device) + 0.5) * (2 / size) - 1


def linear_basis(shape: Shape, device: torch.device) -> Tensor:
    """Rows x, y and 1 over the pixels: `coefficients @ basis` draws any linear field."""
    _, height, width = shape
    y, x = torch.meshgrid(axis(height, device), axis(width, device), indexing="ij")
    return torch.stack([x, y, torch.ones_like(x)]).flatten(1)


def smooth_field(generator: torch.Generator, n: int, maps: int, shape: Shape, knots: int) -> Tensor:
    """Bicubic noise of about unit size with `knots` knots a side: [n, maps, height, width]."""
    _, height, width = shape
    rows, columns = _interpolation(knots, height, generator.device), _interpolation(knots, width, generator.device)
    return rows.T @ normal(generator, n, maps, knots, knots) @ columns


def smooth_curve(values: Tensor, size: int) -> Tensor:
    """Bicubic curves through the knots in the last axis, `size` samples long."""
    return values @ _interpolation(values.shape[-1], size, values.device)


def ramp(field: Tensor, edge: float) -> Tensor:
    """0 well below zero, 1 well above, linear over a band `edge` wide: an anti-aliased threshold (in place)."""
    return field.mul_(1 / edge).add_(0.5).clamp_(0, 1)


def _interpolation(knots: int, size: int, device: torch.device) -> Tensor:
    eye = torch.eye(knots, device=device)[None, None]
    return F.interpolate(eye, size=(knots, size), mode="bicubic", align_corners=True)[0, 0]
