"""A line through the start point, and what the copy does not yet explain along it."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from leakmeter.extraction.exact.asking import Asker, Pieces
from leakmeter.extraction.exact.kinks import Trace
from leakmeter.extraction.exact.network import OneHidden, factor
from leakmeter.extraction.exact.probes import reach

_SLACK = 8.0
"""Rounding is taken to be at most so many times what one operation does; a wrong guess costs queries, not truth."""


class SaturatedError(Exception):
    """A probability on the way is too small to be read."""


class Line(ABC):
    """x = start + t along. At t = 0 the copy is right; far points lie at t = length and, if there are two, -length."""

    def __init__(self, asker: Asker, network: OneHidden, start: Tensor, far: Tensor, answer: Pieces) -> None:
        self.asker, self.network, self.start, self.answer = asker, network, start, answer
        self.length = 1.0 if asker.spec.width is not None else reach(asker.spec, exact=asker.explained)
        self.along = (far - start) / self.length
        self.far = start.new_tensor([self.length, -self.length])[: len(answer.usable)]
        self.again = 0
        """Bends that turned out to lie on known units' hyperplanes: their weights were not the same everywhere."""
        self.fitted = True
        """Whether a copy that is fitted to everything asked explains it."""
        # every known unit is known up to rounding only, and their errors add up like a random walk
        self.noise: float = asker.eps * (_SLACK + 2 * network.units**0.5)

    @staticmethod
    @abstractmethod
    def first_piece(asker: Asker, start: Tensor, answer: Pieces) -> OneHidden:
        """The linear piece at the start point, whose answer is given."""

    @abstractmethod
    def explained(self) -> bool:
        """Whether the copy predicted the answers at the far points."""

    def decisive(self) -> bool:
        """Whether an answer that the copy predicted says anything: rounding hides no difference that matters."""
        return True

    @abstractmethod
    def explore(self) -> int:
        """Adds every unit the copy lacks between the start and the far points; returns the rounds of questions."""

    def at(self, t: Tensor) -> Tensor:
        """Points of the line, [n, d]."""
        return self.start + t[:, None] * self.along

    def ask(self, t: Tensor) -> Pieces:
        """One query for each position."""
        answer = self.asker.ask(self.at(t))
        if not bool(answer.usable.all()):
            raise SaturatedError
        return answer

    @staticmethod
    def with_start(ends: Trace) -> Trace:
        """The far points and the start, where nothing is unexplained, in order."""
        start = Trace(0 * ends.t, 0 * ends.f, 0 * ends.g, 0 * ends.f_noise, ends.g_noise)[:1]
        known = start.join(ends)
        return known[torch.argsort(known.t)]

    def rounding(self, x: Tensor, answer: Pieces) -> Tensor:
        """How far rounding may have moved the values, [n]: errors of single terms add up like a random walk."""
        noise: Tensor = self.noise * (answer.size + self.asker.steepest * self._scale(x))
        return noise

    def learn(self, t: Tensor, jumps: Tensor) -> None:
        """Adds a unit, off at the start, for each bend: at t the gradient changes by `jumps` as t rises."""
        away = torch.sign(t)  # behind the start a jump is met backwards
        jump_noise = self.noise * self.asker.steepest + self.asker.blur
        normals, weights, rows = factor(jumps * away[:, None, None], away[:, None] * self.along, jump_noise)
        points = self.at(t[rows])
        bias_noise = jump_noise * (1 + self._scale(points))
        offsets = (points * normals).sum(1)
        self.again += self.network.add(normals, offsets, weights, jump_noise=jump_noise, bias_noise=bias_noise)
        if len(bias_noise):
            self.asker.bias_error = max(self.asker.bias_error, float(bias_noise.max()))

    def bias_error(self) -> float:
        """How far off the copy may be everywhere, its biases having been found where inputs may have been larger."""
        start = float(self._scale(self.start[None]))
        return max(self.asker.bias_error, self.noise * self.asker.steepest * start)

    @staticmethod
    def _scale(x: Tensor) -> Tensor:
        """Root mean square of the features, [n]."""
        scale: Tensor = x.square().mean(1).sqrt()
        return scale
