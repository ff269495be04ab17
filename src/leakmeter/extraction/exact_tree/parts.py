"""A box of the table, which is a leaf or is parted further."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from leakmeter.extraction.exact_tree.axes import Axes, Point
from leakmeter.extraction.exact_tree.bisection import Split


@dataclass(eq=False)
class Part:
    """An interval on every ordered axis, a set of levels on every unordered one."""

    low: list[float]
    high: list[float]
    levels: list[frozenset[int]]
    points: list[Point] = field(default_factory=list)
    """The points asked in it."""
    answer: int | None = None
    """The number of its answer, once opposite corners agreed."""
    split: Split | None = None
    parts: list[Part] = field(default_factory=list)

    def leaves(self) -> Iterator[Part]:
        """The parts that are not parted further."""
        if not self.parts:
            yield self
        for part in self.parts:
            yield from part.leaves()

    def find(self, point: Point) -> Part:
        """The leaf that holds the point."""
        part = self
        while part.split is not None:
            part = part.parts[side_of(part.split, point)]
        return part

    def holds(self, point: Point) -> bool:
        """Whether the point lies in it."""
        return all(
            int(value) in levels if levels else low <= value <= high
            for value, low, high, levels in zip(point, self.low, self.high, self.levels, strict=True)
        )


def whole(axes: Axes) -> Part:
    """Everything."""
    levels = [frozenset(range(len(axis.levels))) for axis in axes]
    return Part([axis.low for axis in axes], [axis.high for axis in axes], levels)


def side_of(split: Split, point: Point) -> int:
    """On which side of the split the point lies."""
    value = point[split.axis]
    if not split.groups:
        return int(value > split.below)
    return next(number for number, group in enumerate(split.groups) if int(value) in group)


def children_of(part: Part, split: Split) -> list[Part]:
    """The parts a split makes, without points."""
    children = []
    for side in range(len(split.groups) or 2):
        child = Part(list(part.low), list(part.high), list(part.levels))
        if split.groups:
            child.levels[split.axis] = split.groups[side]
        elif side == 0:
            child.high[split.axis] = split.below
        else:
            child.low[split.axis] = split.above
        children.append(child)
    return children
