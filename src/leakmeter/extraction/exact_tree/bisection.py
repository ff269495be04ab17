"""From two points that are answered differently to one split between them."""

from __future__ import annotations

import bisect
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

from leakmeter.extraction.exact_tree.axes import Axes, Point

_FEW = 8  # values between two points for each threshold known there, below which halving is cheaper


@dataclass(frozen=True)
class Split:
    """Where an axis parts: ordered ones between two neighbours, unordered ones into groups of levels."""

    axis: int
    below: float = 0.0
    above: float = 0.0
    groups: tuple[frozenset[int], ...] = ()


@dataclass
class Thresholds:
    """The neighbours between which some answer changed, axis by axis."""

    found: dict[int, list[tuple[float, float]]] = field(default_factory=dict)

    def add(self, axis: int, pair: tuple[float, float]) -> None:
        """Keeps them in order, each once."""
        pairs = self.found.setdefault(axis, [])
        at = bisect.bisect_left(pairs, pair)
        if at == len(pairs) or pairs[at] != pair:
            pairs.insert(at, pair)

    def within(self, axis: int, low: float, high: float) -> list[tuple[float, float]]:
        """Those that part the values from `low` to `high`."""
        return [pair for pair in self.found.get(axis, []) if low <= pair[0] and pair[1] <= high]


Steps = Generator[Sequence[Point], list[int], Split]


def moved(point: Point, axis: int, value: float) -> Point:
    """The point with another value on one axis."""
    return (*point[:axis], value, *point[axis + 1 :])


def find_split(
    axes: Axes, start: Point, end: Point, order: Sequence[int], known: Thresholds, levels: Sequence[frozenset[int]]
) -> Steps:
    """One split between two points answered differently: first the axis by halving the axes, then the place on it.

    Args:
        axes: the axes of the table.
        start: a point.
        end: one that is answered otherwise.
        order: the axes in the order in which they are switched from `start` to `end`.
        known: thresholds found before, tried first where halving is long.
        levels: for each axis the levels in question, for unordered ones.
    """
    first, _ = yield [start, end]
    switched = [axis for axis in order if start[axis] != end[axis]]
    low, high, here, there, at = 0, len(switched), start, end, first
    while high - low > 1:  # `here` has switched `low` of the axes, `there` `high`, and they are answered differently
        middle = (low + high) // 2
        point = start
        for axis in switched[:middle]:
            point = moved(point, axis, end[axis])
        [answer] = yield [point]
        if answer == at:
            low, here = middle, point
        else:
            high, there = middle, point
    axis = switched[low]
    if not axes[axis].ordered:
        return (yield from _groups(here, axis, levels[axis]))
    if here[axis] > there[axis]:
        here, there = there, here
    return (yield from _place(axes, here, there, axis, known))


def _groups(point: Point, axis: int, levels: frozenset[int]) -> Steps:
    """The levels that are answered as this point is, and the others."""
    order = sorted(levels)
    [at] = yield [point]
    answers = yield [moved(point, axis, float(level)) for level in order]
    alike = frozenset(level for level, answer in zip(order, answers, strict=True) if answer == at)
    return Split(axis, groups=(alike, levels - alike))


def _place(axes: Axes, here: Point, there: Point, axis: int, known: Thresholds) -> Steps:
    """The two neighbours on the axis between which the answer changes."""
    below, above = here[axis], there[axis]
    [at] = yield [here]
    candidates = known.within(axis, below, above)
    if axes[axis].whole and above - below <= _FEW * len(candidates):
        candidates = []
    while candidates:
        pair = candidates[len(candidates) // 2]
        left, right = yield [moved(here, axis, pair[0]), moved(here, axis, pair[1])]
        if left != at:
            above = pair[0]
        elif right == at:
            below = pair[1]
        else:
            below, above = pair
            break
        candidates = [each for each in candidates if below <= each[0] and each[1] <= above]
    while (middle := axes[axis].between(below, above)) is not None:
        [answer] = yield [moved(here, axis, middle)]
        if answer == at:
            below = middle
        else:
            above = middle
    known.add(axis, (below, above))
    return Split(axis, below, above)
