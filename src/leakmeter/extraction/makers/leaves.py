"""Dead leaves: boxes and ellipses of many sizes painted one over the other, each lightly textured.

Occlusion by objects of all sizes gives the edges and the scale statistics of natural pictures (Lee, Mumford and
Huang 2001) with no picture involved.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from leakmeter.extraction.makers.canvas import Shape, chance, linear_basis, ramp, smooth_field, uniform


def leaves(n: int, shape: Shape, generator: torch.Generator) -> Tensor:
    """A full scene: about sixteen leaves over a textured ground."""
    ground = uniform(generator, n, shape[0], 1, 1) + 0.2 * smooth_field(generator, n, shape[0], shape, 4)
    return paint_leaves(ground.clamp_(0, 1), 24, shape, generator)


def paint_leaves(picture: Tensor, count: int, shape: Shape, generator: torch.Generator) -> Tensor:
    """Paints up to `count` leaves (two thirds of them on average) over `picture`, in place."""
    basis = linear_basis(shape, generator.device)
    n = len(picture)
    for _ in range(count):
        mask = leaf_mask(n, basis, generator).reshape(n, *shape[1:])
        mask *= chance(generator, 0.65, n, 1, 1)
        strength = uniform(generator, n, 1, 1, 1, high=0.3)
        texture = smooth_field(generator, n, 1, shape, 8).mul_(strength).add_(1)
        colour = (uniform(generator, n, shape[0], 1, 1) * texture).clamp_(0, 1)
        picture.lerp_(colour, mask[:, None])
    return picture


def leaf_mask(n: int, basis: Tensor, generator: torch.Generator) -> Tensor:
    """A mask of one random box or ellipse an image: both are a norm of two linear fields."""
    centre = uniform(generator, n, 2, low=-1)
    angle = uniform(generator, n, high=math.pi)
    radius = uniform(generator, n).square_() * 0.8 + 0.06
    slim = uniform(generator, n, low=0.2)
    along = torch.stack([angle.cos(), angle.sin()], -1) / radius[:, None]
    across = torch.stack([-angle.sin(), angle.cos()], -1) / (radius * slim)[:, None]
    axes = torch.stack([along, across], 1)
    offset = -(axes * centre[:, None]).sum(-1, keepdim=True)
    u, v = (torch.cat([axes, offset], -1) @ basis).square_().unbind(1)
    box = chance(generator, 0.5, n, 1).bool()
    norm = torch.where(box, torch.maximum(u, v), u + v)
    return ramp(norm.neg_().add_(1), 0.35)
