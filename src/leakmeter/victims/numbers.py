"""The types of numbers that models take: their range, and queries as numbers of a type."""

from __future__ import annotations

from typing import Any

import numpy as np

from leakmeter.victims.bounds import UNSAID, Bound


def type_range(dtype: np.dtype[Any]) -> tuple[Bound, Bound]:
    """The lowest and the highest number, where the type has few."""
    if dtype.kind == "b":
        return 0.0, 1.0
    if dtype.kind in "iu" and dtype.itemsize == 1:
        return float(np.iinfo(dtype).min), float(np.iinfo(dtype).max)
    return UNSAID, UNSAID


def as_type(x: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """Numbers of that type, rounded where it has whole ones only."""
    return np.ascontiguousarray(np.rint(x) if dtype.kind in "iub" else x).astype(dtype, copy=False)
