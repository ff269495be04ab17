"""Rows of numbers that may be pictures: many models of pictures take them flat, and an attacker guesses as much.

A square number of features that mostly have one range is drawn, bred and learned as grey pictures, beside points of the
box and students of rows: what the answers tell decides between them, so a wrong guess costs a part of the queries.
"""

from __future__ import annotations

import math

from torch import Tensor, nn

from leakmeter.oracle.answer import Answer
from leakmeter.oracle.oracle import Oracle
from leakmeter.victims.spec import VictimSpec

_LEAST = 8  # pixels a side
_SAME = 0.5  # of the features must have the range that is the median one


def pictured(spec: VictimSpec) -> VictimSpec:
    """The victim as one of pictures, if its inputs may be; else as it is."""
    sides = [side for side in spec.input_shape if side > 1]
    if len(spec.input_shape) == 3 and len(sides) > 1:
        return spec
    if len(sides) == 2 and min(sides) >= _LEAST:
        return spec.shaped((1, *sides))
    side = math.isqrt(spec.features)
    flat = len(sides) == 1 and side >= _LEAST and side**2 == spec.features
    return spec.shaped((1, side, side)) if flat and spec.columns is None and _one_range(spec) else spec


def _one_range(spec: VictimSpec) -> bool:
    """Whether most features have the same range, as pixels do; an open box says nothing of the kind."""
    if spec.low is None or spec.high is None:
        return False
    low, high = (edge.expand(spec.input_shape).flatten() for edge in (spec.low, spec.high))
    same = (low == low.median()) & (high == high.median())
    return int(same.sum()) >= _SAME * spec.features


class PicturedOracle:
    """An oracle that is asked pictures where the victim takes the same numbers in another shape."""

    def __init__(self, oracle: Oracle, spec: VictimSpec) -> None:
        self._oracle, self.spec = oracle, spec

    def query_up_to_budget(self, x: Tensor) -> Answer:
        """Asks as many of the pictures as the budget allows."""
        return self._oracle.query_up_to_budget(x.reshape(len(x), *self._oracle.spec.input_shape))


class AsPicture(nn.Module):
    """A student of pictures as one of the victim's own inputs."""

    def __init__(self, shape: tuple[int, ...], student: nn.Module) -> None:
        super().__init__()
        self.shape, self.student = shape, student

    def forward(self, x: Tensor) -> Tensor:
        """What the student says of the inputs laid out as pictures."""
        outputs: Tensor = self.student(x.reshape(len(x), *self.shape))
        return outputs
