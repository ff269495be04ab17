"""The range of pictures where nobody says one: 0 to 1, shares of full brightness, unless answers speak against it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

UNIT = (0.0, 1.0)
_CHANNELS = (1, 3)
_SHORTEST = 8  # a side of a picture


def is_picture(shape: Sequence[Any] | None) -> bool:
    """Whether inputs of that shape look like pictures; a side that is left open may be any."""
    if shape is None or len(shape) != 3:
        return False
    first, last = shape[0] in _CHANNELS, shape[2] in _CHANNELS
    sides = shape[1:] if first else shape[:2]
    return (first or last) and all(not isinstance(side, int) or side >= _SHORTEST for side in sides)
