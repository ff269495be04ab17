"""Random pen strokes: quadratic Bezier curves of random width."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from leakmeter.extraction.makers.canvas import Shape, axis, chance, uniform

_POINTS = 20


def strokes(n: int, shape: Shape, generator: torch.Generator) -> Tensor:
    """One to five strokes an image; in colour, ink and paper get a colour each.

    A stroke is a sum of Gaussians along its curve. A Gaussian is a product of one in x and one in y, so all of an
    image's ink is one small matrix product, and a threshold gives it an edge.
    """
    channels, height, width = shape
    most = 5
    curve, spacing = _bezier(uniform(generator, n, most, 3, 2, low=-0.85, high=0.85))
    drawn = chance(generator, 0.5, n, most, 1)
    drawn[:, 0] = 1
    # the pen is a share of the picture but never thinner than a pixel shows
    pen = uniform(generator, n, most, 1, low=0.035, high=0.12) + 0.5 / min(height, width)
    weight = drawn * spacing / (pen * math.sqrt(2 * math.pi))
    across = _gauss(axis(width, generator.device), curve[..., 0], pen)
    down = _gauss(axis(height, generator.device), curve[..., 1], pen) * weight.flatten(1)[..., None]
    ink = (down.transpose(1, 2) @ across).sub_(0.3).mul_(2.5).clamp_(0, 1)[:, None]
    if channels == 1:
        return ink
    paper, colour = uniform(generator, 2, n, channels, 1, 1)
    return torch.lerp(paper, colour, ink)


def _bezier(control: Tensor) -> tuple[Tensor, Tensor]:
    """Points along each curve and the length of curve each stands for."""
    t = torch.linspace(0, 1, _POINTS, device=control.device)
    basis = torch.stack([(1 - t) ** 2, 2 * t * (1 - t), t**2])
    curve = basis.T @ control
    velocity = torch.stack([2 * t - 2, 2 - 4 * t, 2 * t]).T @ control
    return curve, velocity.norm(dim=-1) / (_POINTS - 1)


def _gauss(pixels: Tensor, centres: Tensor, pen: Tensor) -> Tensor:
    scaled = (pixels - centres[..., None]) / pen[..., None]
    return scaled.square_().mul_(-0.5).exp_().flatten(1, 2)
