"""Where a copy is put to the proof: at the extremes of what it does, where units hide that random lines rarely meet."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from leakmeter.victims.spec import VictimSpec

Pieces = Callable[[Tensor], tuple[Tensor, Tensor]]
"""A copy: values [n, C] and gradients [n, C, d] at points [n, d]."""
_STEPS = 6
_ALL_VERTICES = 12
"""Up to so many features a box is asked at every vertex: a unit that cuts off one corner is seen nowhere else."""


def extreme_points(pieces: Pieces, spec: VictimSpec, starts: Tensor, generator: torch.Generator) -> Tensor:
    """Points to which random mixtures of the copy's outputs lead from `starts` [n, d], uphill and downhill.

    In a box these are vertices: a hyperplane that cuts anything off the box cuts off a vertex. In open space they lie
    as far out as the starts, and farther. Of a small box all vertices come along.
    """
    x, mixture = starts, torch.zeros(0)
    for step in range(_STEPS):
        gradients = pieces(x)[1]
        if step == 0:
            mixture = torch.randn(gradients.shape[:2], generator=generator, dtype=x.dtype)
        slope = torch.einsum("nc,ncd->nd", mixture, gradients)
        going = torch.arange(len(x)) % _STEPS >= step  # some stop early: what they pass is seen as well
        x = torch.where(going[:, None], _moved(x, slope, spec), x)
    if spec.width is None or spec.features > _ALL_VERTICES:
        return x
    points: Tensor = torch.unique(torch.cat([vertices(spec), x]), dim=0)
    return points


def _moved(x: Tensor, slope: Tensor, spec: VictimSpec) -> Tensor:
    """As far up the slope as the box allows, or half as far as the point is from the origin."""
    if spec.width is not None:
        low, high = bounds(spec)
        return torch.where(slope > 0, high, torch.where(slope < 0, low, x))
    far = x.norm(dim=1, keepdim=True) / 2
    moved = x + far * slope / slope.norm(dim=1, keepdim=True).clamp(min=1e-300)
    return spec.clamp(moved.reshape(-1, *spec.input_shape)).flatten(1)


def bounds(spec: VictimSpec) -> tuple[Tensor, Tensor]:
    """The least and the largest value of every feature, [d] each."""
    ends = zip((spec.low, spec.high), (-torch.inf, torch.inf), strict=True)
    low, high = (torch.as_tensor(end if bound is None else bound).double() for bound, end in ends)
    return low.expand(spec.input_shape).flatten(), high.expand(spec.input_shape).flatten()


def vertices(spec: VictimSpec) -> Tensor:
    """All corners of a box, [2^d, d]."""
    low, high = bounds(spec)
    choice = torch.cartesian_prod(*[torch.arange(2)] * spec.features).reshape(-1, spec.features)
    return torch.where(choice > 0, high, low)
