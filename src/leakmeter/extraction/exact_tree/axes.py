"""The directions in which a row of a table can move: along numbers, or among the levels of a category.

A point is a tuple with one number an axis: the value itself, or the number of a level. A one-hot group is one axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from leakmeter.data.columns import Column, Columns

Point = tuple[float, ...]
_AMOUNT = 1000  # width of a range that is taken for one of amounts


@dataclass(frozen=True)
class Axis:
    """One direction. Unordered ones have levels 0, 1, 2, ...; ordered ones run from `low` to `high`."""

    name: str
    places: tuple[int, ...]
    """The columns it moves: one, or those of a one-hot group."""
    low: float
    high: float
    whole: bool
    """Ordered: whether only whole numbers are allowed; else every float32 is."""
    levels: tuple[float, ...] = ()
    """Unordered: what a row holds for each level (for a one-hot group: nothing to read)."""
    amount: bool = False
    """Ordered: whether small values are likely to be as many as large ones."""

    @property
    def ordered(self) -> bool:
        """Whether neighbours mean anything."""
        return not self.levels

    @property
    def size(self) -> int | None:
        """How many values there are; None: as many as there are floats."""
        if self.levels:
            return len(self.levels)
        return int(self.high - self.low) + 1 if self.whole else None

    @property
    def points(self) -> list[float]:
        """All of them, where they can be counted."""
        return [float(value) for value in range(int(self.low), int(self.high) + 1)]

    def between(self, below: float, above: float) -> float | None:
        """A value between the two, a short one if there is any near the middle; None: they are neighbours."""
        if self.whole:
            return float((below + above) // 2) if above - below > 1 else None
        start, end = np.float32(below), np.float32(above)
        if np.nextafter(start, end) == end:
            return None
        width = float(end) - float(start)
        middle = float(start) + width / 2
        for digits in range(1, 10):
            short = float(np.float32(f"{middle:.{digits}g}"))
            if start < short < end and abs(short - middle) <= width / 4:
                return short
        middle = float(np.float32(middle))
        return middle if start < middle < end else float(np.nextafter(start, end))

    def cut(self, below: float, above: float) -> float:
        """The threshold two neighbours stand for."""
        return (below + above) / 2


class Axes(Sequence[Axis]):
    """All axes of a table."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        grouped = {place for group in columns.groups.values() for place in group}
        single = {place: _axis(place, column) for place, column in enumerate(columns) if place not in grouped}
        groups = {places[0]: _group(name, places) for name, places in columns.groups.items()}
        self._axes = [axis for _, axis in sorted((single | groups).items())]

    def __getitem__(self, place: int) -> Axis:  # type: ignore[override]
        return self._axes[place]

    def __len__(self) -> int:
        return len(self._axes)

    @property
    def cells(self) -> int | None:
        """How many points there are; None: as many as there are floats."""
        total = 1
        for axis in self:
            if axis.size is None:
                return None
            total *= axis.size
        return total

    def rows(self, points: Sequence[Point], dtype: torch.dtype) -> Tensor:
        """The points as rows of the table."""
        at = torch.tensor(points, dtype=torch.float64)
        x = torch.zeros(len(points), len(self.columns), dtype=torch.float64)
        for number, axis in enumerate(self):
            if len(axis.places) > 1:
                x[:, list(axis.places)] = torch.nn.functional.one_hot(at[:, number].long(), len(axis.places)).double()
            elif axis.levels:
                x[:, axis.places[0]] = torch.tensor(axis.levels, dtype=torch.float64)[at[:, number].long()]
            else:
                x[:, axis.places[0]] = at[:, number]
        return x.to(dtype)


def _axis(place: int, column: Column) -> Axis:
    if column.kind == "categorical":  # codes too: a library may part any set of them from the others
        values = column.values or []
        return Axis(column.name, (place,), 0, len(values) - 1, True, tuple(values))
    if column.kind == "onehot":  # alone in its group: always 1
        return Axis(column.name, (place,), 0, 0, True, (1.0,))
    low, high = column.ends
    ends, whole = (_inside(low, high), _inside(high, low)), column.kind == "integer"
    return Axis(column.name, (place,), *ends, whole, amount=is_amount(column))


def is_amount(column: Column) -> bool:
    """Whether a column holds amounts, which are small as often as large: a wide range from 0 or above."""
    low, high = column.ends
    return column.kind in ("numeric", "integer") and low >= 0 and high - low >= _AMOUNT


def _inside(end: float, other: float) -> float:
    """The float32 at an end of the range, on the inner side."""
    near = np.float32(end)
    outside = float(near) < end if end < other else float(near) > end  # as float32 they would always be equal
    return float(np.nextafter(near, np.float32(other)) if outside else near)


def _group(name: str, places: Sequence[int]) -> Axis:
    return Axis(name, tuple(places), 0, len(places) - 1, True, tuple(map(float, range(len(places)))))
