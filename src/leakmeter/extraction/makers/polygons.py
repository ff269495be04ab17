"""Random filled polygons, some with holes."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from leakmeter.extraction.makers.canvas import Shape, chance, linear_basis, ramp, smooth_field, uniform

_SIDES = 6


def polygons(n: int, shape: Shape, generator: torch.Generator) -> Tensor:
    """One to four convex polygons on black; a quarter of the later ones cut a hole instead."""
    basis = linear_basis(shape, generator.device)
    picture = torch.zeros(n, *shape, device=generator.device)
    for index in range(4):
        mask = _convex(n, basis, generator).reshape(n, *shape[1:])
        if index:
            mask *= chance(generator, 0.5, n, 1, 1)
        strength = uniform(generator, n, 1, 1, 1, high=0.3)
        texture = smooth_field(generator, n, 1, shape, 6).mul_(strength).add_(1)
        colour = (uniform(generator, n, shape[0], 1, 1, low=0.2) * texture).clamp_(0, 1)
        if index:
            colour *= chance(generator, 0.75, n, 1, 1, 1)
        picture.lerp_(colour, mask[:, None])
    return picture


def _convex(n: int, basis: Tensor, generator: torch.Generator) -> Tensor:
    """The meeting of half-planes that face about evenly spread directions around a centre."""
    centre = uniform(generator, n, 1, 2, low=-0.6, high=0.6)
    turn = uniform(generator, n, 1) + torch.arange(_SIDES, device=basis.device) / _SIDES
    angle = 2 * math.pi * (turn + uniform(generator, n, _SIDES, low=-0.08, high=0.08))
    outward = torch.stack([angle.cos(), angle.sin()], -1)
    reach = uniform(generator, n, 1, low=0.1, high=0.9) * uniform(generator, n, _SIDES, low=0.3)
    offset = reach + (outward * centre).sum(-1)
    inside = torch.cat([-outward, offset[..., None]], -1) @ basis
    return ramp(inside.amin(1), 0.1)
