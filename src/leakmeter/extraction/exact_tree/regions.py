"""Ours: part the box until every part answers alike at opposite corners, then look for surprises.

Leaves of one tree are boxes. If they have different answers, two opposite corners of a part that are answered alike lie
in one leaf, and with them the whole part: two queries settle it. Where answers repeat (pure leaves, labels, sums of
trees) that is no proof: parts are looked at more often, and at the end fresh points must hold no surprise.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from leakmeter.extraction.exact_tree.asking import Asker, Search
from leakmeter.extraction.exact_tree.axes import Axes, Point
from leakmeter.extraction.exact_tree.bisection import Split, Thresholds, find_split, moved
from leakmeter.extraction.exact_tree.parts import Part, children_of, side_of, whole

_LOOKS = 3  # tries to find a point whose answer tells its leaf
_MANY = 1500  # answers after which it shows whether they repeat
_NEAREST = 150  # points of a part that are compared in pairs


class Parting:
    """The search: a tree of parts that grows until nothing surprises any more."""

    def __init__(self, axes: Axes, asker: Asker, draws: random.Random, checks: int) -> None:
        self.axes, self.asker, self.draws, self.checks = axes, asker, draws, checks
        self.thresholds = Thresholds()
        self.root = whole(axes)
        self.settled: Counter[int] = Counter()
        """Of each answer, how many parts were taken to have no other."""
        self.quiet = 0
        """Fresh points in a row that held no surprise."""
        self.before_checks = 0
        """Points asked when the first round of fresh points began."""
        self.before_proof = 0
        """Points asked when the first fresh points after the last change had held no surprise."""

    def grow(self, patience: int, proof: int) -> None:
        """Parts the box, until `proof` fresh points hold no surprise, every point was asked, or the budget ends.

        With the last change behind it the copy is what it will be; how many were asked when `patience` points had held
        no surprise since is kept in `before_proof`.
        """
        self._settle([self.root])
        self.before_checks = self.before_proof = len(self.asker.known)
        while self.quiet < max(patience, proof) and not self.asker.exhausted and not self.hopeless:
            while surprised := self._surprises(list(self.asker.known)):
                self._settle(surprised)
            if not (points := self._fresh(max(1, patience))):
                return
            surprised = self._surprises(points)
            self.quiet = 0 if surprised else self.quiet + len(points)
            self._settle(surprised)
            if self.quiet <= len(points):  # what comes after this batch is proof, unless it changes something
                self.before_proof = len(self.asker.known)

    @property
    def exhaustive(self) -> bool:
        """Whether every point there is has been asked."""
        return self.axes.cells is not None and len(self.asker.known) >= self.axes.cells

    @property
    def hopeless(self) -> bool:
        """Whether most answers are new even after many: a sum of many trees, whose parts no budget settles."""
        asked = len(self.asker.known)
        return asked >= _MANY and len(self.asker.values) > asked / 2 and (self.axes.cells or asked**2) > 4 * asked

    def _settle(self, parts: Sequence[Part]) -> None:
        """Parts each of them until opposite corners agree everywhere."""
        while parts and not self.asker.exhausted and not self.hopeless:
            self.asker.run([self._settle_one(part) for part in parts])
            parts = [child for part in parts for child in part.parts]

    def _settle_one(self, part: Part) -> Search:
        pair = yield from self._difference(part)
        if pair is None:
            return
        split = yield from self._top(part, *pair)
        part.split, part.parts = split, children_of(part, split)
        for point in part.points:
            part.parts[side_of(split, point)].points.append(point)

    def _top(self, part: Part, one: Point, other: Point) -> Search:
        """A split near the root of the part.

        The root parts every two opposite corners. The splits that bound the leaf of one toward the other are found one
        after the other; that at the root matters at the other corner too, those below it do not.
        """
        pair = yield from self._opposite(part, one, other)
        found: list[Split] = []
        for start, end in (pair, pair[::-1]):
            far = end
            while self.asker.known[far] != self.asker.known[start]:
                order = self.draws.sample(range(len(self.axes)), len(self.axes))
                split = yield from find_split(self.axes, start, far, order, self.thresholds, part.levels)
                sides = _beside(split, start, end)
                if (yield from self._matters(part, split, sides, end)):
                    return split
                found.append(split)
                far = moved(far, split.axis, sides[0])
                yield [far]
        return found[0]

    def _opposite(self, part: Part, one: Point, other: Point) -> Search:
        """Two opposite corners answered differently, the first with an answer that is likely to be of one leaf only.

        Many leaves are sure of a class; from one to another of them a search would not notice that it left the first.
        """
        best = None
        for look in range(_LOOKS):
            ends = [
                self._ends(part, axis, swap=look > 0 and self.draws.random() < 0.5) for axis in range(len(self.axes))
            ]
            pair: tuple[Point, Point] = (tuple(low for low, _ in ends), tuple(high for _, high in ends))
            answers = yield list(pair)
            part.points += pair
            if answers[0] != answers[1]:
                if not self._sure(answers[0]):
                    return pair
                best = best or pair
                if not self._sure(answers[1]):
                    return pair[::-1]
        return best or (one, other)

    def _ends(self, part: Part, axis: int, swap: bool) -> tuple[float, float]:
        """The two ends of the part on an axis, or two of its levels."""
        ends = part.low[axis], part.high[axis]
        if part.levels[axis]:
            levels = self.draws.sample(sorted(part.levels[axis]), len(part.levels[axis]))
            ends = float(levels[0]), float(levels[-1])
        return ends[::-1] if swap else ends

    def _sure(self, answer: int) -> bool:
        value = self.asker.values[answer]
        return bool(value.max() >= 1) and bool(value.min() == 0)

    def _repeats(self, part: Part) -> bool:
        """Whether the answer of a part is likely to be that of several leaves: it is sure, or another part has it."""
        answer = self.asker.known[part.points[0]]
        return self._sure(answer) or self.settled[answer] > 0

    def _matters(self, part: Part, split: Split, sides: tuple[float, float], end: Point) -> Search:
        """Whether the answer changes across the split at the far corner, or nearby where that does not tell."""
        place = end
        for _ in range(_LOOKS):
            points = [moved(place, split.axis, side) for side in sides]
            left, right = yield points
            part.points += points
            if left != right or not self._sure(left):
                return left != right
            near = self._draw(part, corner=False)
            place = tuple(new if self.draws.random() < 0.5 else old for old, new in zip(end, near, strict=True))
        return False

    def _difference(self, part: Part) -> Search:
        """Two points of the part that are answered differently; None: none was found, and it is a leaf."""
        pair = self._differing(part)
        if pair is not None:
            return pair
        corners = self._corners(part)
        yield corners
        part.points += corners
        for look in range(self.checks if self._repeats(part) else 0):
            if (pair := self._differing(part)) is not None:
                return pair
            more = self._draw(part, corner=look % 2 == 0)
            yield [more]
            part.points.append(more)
        pair = self._differing(part)
        if pair is None:
            part.answer = self.asker.known[part.points[0]]
            self.settled[part.answer] += 1
        return pair

    def _differing(self, part: Part) -> tuple[Point, Point] | None:
        """Two points answered differently, of those that differ on the fewest axes."""
        answers = np.array([self.asker.known[point] for point in part.points])
        if len(set(answers.tolist())) < 2:
            return None
        points = np.array(part.points[-_NEAREST:])
        apart = (points[:, None] != points[None]).sum(2) + len(self.axes) * (
            answers[-_NEAREST:, None] == answers[-_NEAREST:]
        )
        one, other = np.unravel_index(int(apart.argmin()), apart.shape)
        if answers[-_NEAREST:][one] == answers[-_NEAREST:][other]:
            return part.points[0], part.points[int(np.flatnonzero(answers != answers[0])[0])]
        return tuple(points[one].tolist()), tuple(points[other].tolist())

    def _corners(self, part: Part) -> list[Point]:
        """The fewest points that reach, with those asked already, every end of every axis and every level."""
        asked = np.array(part.points).reshape(-1, len(self.axes))
        wanted = [_unreached(part, number, asked[:, number]) for number in range(len(self.axes))]
        count = max(map(len, wanted))
        return [
            tuple(
                wants[k] if k < len(wants) else self._draw_on(part, number, corner=True)
                for number, wants in enumerate(wanted)
            )
            for k in range(count)
        ]

    def _draw(self, part: Part, corner: bool) -> Point:
        """A point of the part: at random ends of its axes, or anywhere."""
        return tuple(self._draw_on(part, number, corner) for number in range(len(self.axes)))

    def _draw_on(self, part: Part, number: int, corner: bool) -> float:
        axis, low, high = self.axes[number], part.low[number], part.high[number]
        if not axis.ordered:
            return float(self.draws.choice(sorted(part.levels[number])))
        if corner:
            return self.draws.choice((low, high))
        value = self.draws.uniform(low, high)
        if axis.amount and self.draws.random() < 0.5:
            value = low + math.expm1(self.draws.random() * math.log1p(high - low))
        elif axis.whole:
            value = self.draws.randint(int(low), int(high))
        return min(max(float(round(value)) if axis.whole else float(np.float32(value)), low), high)

    def _fresh(self, n: int) -> list[Point]:
        """Points never asked: half from the whole box, half from parts taken by turns; all of them if they are few."""
        cells, known = self.axes.cells, self.asker.known
        if cells is not None and cells - len(known) <= 4 * n:
            return [point for point in product(*(axis.points for axis in self.axes)) if point not in known]
        leaves = list(self.root.leaves())
        drawn = [self._draw(self.root if k % 2 else self.draws.choice(leaves), corner=False) for k in range(n)]
        return [point for point in dict.fromkeys(drawn) if point not in known]

    def _surprises(self, points: Sequence[Point]) -> list[Part]:
        """The leaves that answered one of the points otherwise than they should."""
        self.asker.ask(points)
        surprised = {}
        for point in points:
            if point in self.asker.known:
                leaf = self.root.find(point)
                if leaf.answer is not None and self.asker.known[point] != leaf.answer:
                    leaf.points.append(point)
                    surprised[id(leaf)] = leaf
        for leaf in surprised.values():
            leaf.answer = None
        return list(surprised.values())


def _unreached(part: Part, axis: int, asked: NDArray[np.float64]) -> list[float]:
    """The ends of the part on an axis, or its levels, that no point asked has."""
    if part.levels[axis]:
        return [float(level) for level in sorted(part.levels[axis]) if level not in asked]
    ends = dict.fromkeys((part.low[axis], part.high[axis]))
    return [end for end in ends if end not in asked]


def _beside(split: Split, here: Point, there: Point) -> tuple[float, float]:
    """Two values on both sides of a split, that on the side of `here` first."""
    if split.groups:
        mine = next(group for group in split.groups if int(here[split.axis]) in group)
        other = next(group for group in split.groups if group is not mine)
        level = int(there[split.axis])
        return here[split.axis], float(level if level in other else min(other))
    pair = (split.below, split.above)
    return pair if here[split.axis] <= split.below else pair[::-1]
