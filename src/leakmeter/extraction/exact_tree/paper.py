"""Tramèr et al. 2016, algorithm 2: path finding, leaf by leaf.

From a point in a leaf every axis is searched for all its thresholds; the stretch the point lies in bounds the leaf, and
every other stretch gives a point to go on from. The paper takes leaves to have different answers; so that leaves with
the same answer are not passed over, a point counts as seen when a box found holds it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from leakmeter.extraction.exact_tree.asking import Asker
from leakmeter.extraction.exact_tree.axes import Axes, Point
from leakmeter.extraction.exact_tree.bisection import moved
from leakmeter.extraction.exact_tree.copy import Writer, ensemble, numbers
from leakmeter.extraction.exact_tree.parts import Part, whole
from leakmeter.models.trees.ensemble import TreeEnsemble


def find_paths(axes: Axes, asker: Asker, start: Point) -> list[Part]:
    """The box of every leaf; fewer where the budget ends."""
    queue, leaves = deque([start]), list[Part]()
    while queue and not asker.exhausted:
        point = queue.popleft()
        if any(box.holds(point) for box in leaves) or not asker.ask([point]):
            continue
        box = whole(axes)
        for number, axis in enumerate(axes):
            queue += _levels(asker, point, number, box) if not axis.ordered else _line(axes, asker, point, number, box)
            if asker.exhausted:
                break
        box.answer = asker.known[point]
        leaves.append(box)
    return leaves


def _levels(asker: Asker, point: Point, axis: int, box: Part) -> list[Point]:
    """CATEGORY_SPLIT: the levels answered as the point is bound the leaf, the others are gone on from."""
    others = [moved(point, axis, float(level)) for level in sorted(box.levels[axis])]
    if not asker.ask(others):
        return []
    same = [each for each in others if asker.known[each] == asker.known[point]]
    box.levels[axis] = frozenset(int(each[axis]) for each in same)
    return [each for each in others if asker.known[each] != asker.known[point]]


def _line(axes: Axes, asker: Asker, point: Point, axis: int, box: Part) -> list[Point]:
    """LINE_SEARCH: all thresholds on the axis, by halving every stretch whose ends are answered differently."""
    ends = (axes[axis].low, axes[axis].high)
    known = sorted({*ends, point[axis]})
    if not asker.ask([moved(point, axis, value) for value in known]):
        return []
    cuts: list[tuple[float, float]] = []
    for below, above in pairwise(known):
        cuts += _halve(axes, asker, point, axis, below, above)
    at = point[axis]
    box.low[axis] = max((above for _, above in cuts if above <= at), default=ends[0])
    box.high[axis] = min((below for below, _ in cuts if below >= at), default=ends[1])
    starts = [above for below, above in cuts if below >= at] + [below for below, above in cuts if above <= at]
    return [moved(point, axis, value) for value in starts]


def _halve(axes: Axes, asker: Asker, point: Point, axis: int, below: float, above: float) -> list[tuple[float, float]]:
    known = asker.known
    if known[moved(point, axis, below)] == known[moved(point, axis, above)]:
        return []
    middle = axes[axis].between(below, above)
    if middle is None:
        return [(below, above)]
    if not asker.ask([moved(point, axis, middle)]):
        return []
    return _halve(axes, asker, point, axis, below, middle) + _halve(axes, asker, point, axis, middle, above)


def write_boxes(leaves: Sequence[Part], axes: Axes, asker: Asker, kind: str) -> TreeEnsemble:
    """The copy that answers as the first box that holds the point does, outside all of them as the first of all."""
    writer = Writer(axes, len(asker.values[0]))
    assert leaves[0].answer is not None
    node = writer.leaf(numbers(asker.values[leaves[0].answer], kind))
    for box in reversed(leaves):
        node = _write_box(writer, axes, box, numbers(asker.values[box.answer or 0], kind), node)
    return ensemble(writer.tree(node), kind)


def _write_box(writer: Writer, axes: Axes, box: Part, value: list[float], otherwise: int) -> int:
    node = writer.leaf(value)
    for axis, low, high, levels in zip(axes, box.low, box.high, box.levels, strict=True):
        place = axis.places[0]
        if not axis.ordered:
            if len(levels) < len(axis.levels):
                node = writer.choose(
                    axis, {level: node if level in levels else otherwise for level in range(len(axis.levels))}
                )
            continue
        if high < axis.high:
            node = writer.branch(place, axis.cut(high, _next(axis.whole, high)), node, otherwise)
        if low > axis.low:
            node = writer.branch(place, axis.cut(-_next(axis.whole, -low), low), otherwise, node)
    return node


def _next(whole: bool, value: float) -> float:
    return value + 1 if whole else float(np.nextafter(np.float32(value), np.float32(np.inf)))
