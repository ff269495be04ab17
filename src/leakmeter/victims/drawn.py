"""Inputs drawn by chance, to see how a model answers where nobody gives real ones."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from leakmeter.victims.picture_range import is_picture
from leakmeter.victims.spec import VictimSpec

_GRIDS = (1, 2, 4, 8, 16)  # patches of one colour along a side: noise alone looks alike to most networks


def drawn(spec: VictimSpec, n: int) -> Tensor:
    """`n` inputs of the box, float32 and always the same: patches of colour for pictures, else any point alike."""
    chance = torch.Generator().manual_seed(0)
    if not is_picture(spec.input_shape):
        return _inside(spec.sample(n, chance), spec)
    channels, *sides = spec.input_shape
    each = [n // len(_GRIDS) + (place < n % len(_GRIDS)) for place in range(len(_GRIDS))]
    grids = [torch.rand(rows, channels, side, side, generator=chance) for rows, side in zip(each, _GRIDS, strict=True)]
    return _inside(spec.box.from_unit(torch.cat([interpolate(grid, tuple(sides)) for grid in grids])), spec)


def _inside(x: Tensor, spec: VictimSpec) -> Tensor:
    """In single precision, and still in a box whose edges may have more digits."""
    rounded = x.float()
    if spec.low is not None:
        rounded = torch.where(rounded.double() < spec.low.double(), _next(rounded, torch.inf), rounded)
    if spec.high is not None:
        rounded = torch.where(rounded.double() > spec.high.double(), _next(rounded, -torch.inf), rounded)
    return rounded


def _next(x: Tensor, towards: float) -> Tensor:
    return torch.nextafter(x, torch.full_like(x, towards))
