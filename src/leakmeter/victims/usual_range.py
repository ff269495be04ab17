"""Usual ranges of inputs, tried in turn where nobody says one, up to the first in which a model tells inputs apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

UNIT = (0.0, 1.0)
_OF_PICTURES = (UNIT, (-1.0, 1.0), (0.0, 255.0))  # shares of full brightness, unless answers speak against it
_OF_NUMBERS = ((-1.0, 1.0), (-10.0, 10.0), (-100.0, 100.0))
_CHANNELS = (1, 3)
_SHORTEST = 8  # a side of a picture
_FLAT = {784: (1, 28, 28), 3072: (3, 32, 32)}  # so many numbers in a row are a picture's, as a rule


def usual_ranges(shape: Sequence[Any] | None) -> tuple[tuple[float, float], ...]:
    """What to try for inputs of that shape, the likeliest first."""
    return _OF_PICTURES if picture_shape(shape) else _OF_NUMBERS


def picture_shape(shape: Sequence[Any] | None) -> Sequence[Any] | None:
    """The sides of inputs that look like pictures; None: they do not. A side that is left open may be any."""
    long = [side for side in shape or () if side != 1]
    if len(long) == 1 and long[0] in _FLAT:
        return _FLAT[long[0]]
    if shape is None or len(shape) != 3:
        return None
    first, last = shape[0] in _CHANNELS, shape[2] in _CHANNELS
    sides = shape[1:] if first else shape[:2]
    return shape if (first or last) and all(not isinstance(side, int) or side >= _SHORTEST for side in sides) else None
