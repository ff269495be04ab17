"""The range of pictures where nobody says one: 0 to 1, shares of full brightness, unless answers speak against it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from leakmeter.victims.spec import VictimSpec

UNIT = (0.0, 1.0)
_CHANNELS = (1, 3)
_SHORTEST = 8  # a side of a picture
_GRIDS = (1, 2, 4, 8)  # patches of one colour along a side
_EACH = 8  # pictures of each grid


def is_picture(shape: Sequence[Any] | None) -> bool:
    """Whether inputs of that shape look like pictures; a side that is left open may be any."""
    if shape is None or len(shape) != 3:
        return False
    first, last = shape[0] in _CHANNELS, shape[2] in _CHANNELS
    sides = shape[1:] if first else shape[:2]
    return (first or last) and all(not isinstance(side, int) or side >= _SHORTEST for side in sides)


def patches(spec: VictimSpec) -> Tensor:
    """A few pictures of the box, from one colour to many patches: noise looks alike to most networks."""
    channels, height, width = spec.input_shape
    drawn = torch.Generator().manual_seed(0)
    grids = [torch.rand(_EACH, channels, side, side, generator=drawn) for side in _GRIDS]
    return spec.box.from_unit(torch.cat([interpolate(grid, (height, width)) for grid in grids]).to(spec.dtype))
