"""Where a piecewise linear function bends along a segment, by intersecting known pieces instead of bisecting.

Two known pieces predict where they meet. A question beside that point shows whether a piece really reaches it: if so,
the pieces are taken for neighbours and the bend is found; if not, the answer splits the gap, mostly by a cell not seen
before. With several outputs even that question is saved: one hidden unit bends them all by a matrix of rank one, two
units by a matrix of rank two. All open gaps are asked in one batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import IntEnum

import torch
from torch import Tensor

_NUMBERS = 2**26
"""Gradient components kept of one line at most: half a gigabyte."""
_POINTS = 2**12, 2**16
"""Yet at least, and in any case at most, so many points."""


@dataclass(frozen=True)
class Trace:
    """Points of a segment, each with the linear piece it lies on; `k` gradient components a piece."""

    t: Tensor
    """Where on the segment, [n]."""
    f: Tensor
    """Values, [n, C]."""
    g: Tensor
    """Gradients, [n, C, k]."""
    f_noise: Tensor
    """How far rounding may have moved a value, [n]."""
    g_noise: Tensor
    """How far rounding may have moved a gradient in the Frobenius norm, [n]."""

    def __getitem__(self, rows: Tensor | slice) -> Trace:
        return Trace(*(getattr(self, field.name)[rows] for field in fields(self)))

    def join(self, other: Trace) -> Trace:
        """The points of both."""
        return Trace.all([self, other])

    @staticmethod
    def all(traces: list[Trace]) -> Trace:
        """The points of all."""
        return Trace(*(torch.cat([getattr(trace, field.name) for trace in traces]) for field in fields(Trace)))


@dataclass(frozen=True)
class Bends:
    """The bends found, in order."""

    t: Tensor
    """Where, [m]."""
    jump: Tensor
    """By how much the gradient changes, [m, C, k]."""
    merged: Tensor
    """Which may be several in one: too close for the arithmetic, or no question was left; [m]."""
    error: Tensor
    """How far off the positions may be, [m]."""
    noise: Tensor
    """How far off the jumps may be, [m]."""
    cells: Trace
    """Every point asked."""
    rounds: int


def search(
    ask: Callable[[Tensor], Trace],
    known: Trace,
    along: Tensor,
    *,
    resolution: float,
    room: Callable[[int], int] = lambda wanted: wanted,
    believe: bool = False,
    trust: bool = False,
    max_rounds: int = 200,
) -> Bends:
    """All bends between the first and the last of the `known` points.

    Every answer closes a gap or shrinks one, and gaps narrower than `resolution` close as they are, so this ends
    whatever the function is.

    Raises:
        CrowdedError: when the points fill the memory set aside for them.

    Args:
        ask: answers for positions on the segment.
        known: two points or more, in order.
        along: [k], turns a gradient into a slope.
        resolution: the least distance between two positions, relative to 1 + |t|.
        room: how many of so many questions the budget still allows.
        believe: whether a prediction that held on its longer side is believed without asking about the other.
        trust: whether two pieces that meet are neighbours, because whoever asks will know if they are not.
        max_rounds: how often to ask at most.
    """
    chart = _Chart(known, along, resolution, believe, trust)
    most = min(max(_NUMBERS // known.g[0].numel(), _POINTS[0]), _POINTS[1])
    rounds = 0
    while rounds < max_rounds:
        chart.settle()
        gaps, t = chart.plan()
        allowed = room(len(t))
        if allowed == 0:
            break
        if len(chart.trace.t) + allowed > most:
            raise CrowdedError
        chart.insert(gaps[:allowed], ask(t[:allowed]))
        rounds += 1
    return chart.bends(rounds)


class CrowdedError(Exception):
    """More bends than can be kept: the function is no network of one hidden layer, or a huge one."""


class _Gap(IntEnum):
    OPEN = 0
    SAME = 1
    KINK = 2
    MERGED = 3


class _Chart:
    """What is known of the segment. Gap i lies between points i and i + 1; the last point has none."""

    def __init__(self, known: Trace, along: Tensor, resolution: float, believe: bool, trust: bool) -> None:
        self.trace, self.along, self.resolution, self.believe = known, along, resolution, believe
        self.trust = trust
        self.per_slope = float(along.norm()) / len(along) ** 0.5  # rounding errors of components are independent
        self.state = torch.full((len(known.t),), _Gap.OPEN)
        self.state[-1] = _Gap.SAME
        self.bracket = torch.zeros_like(known.t)
        """Below this width a gap holds the bend that was predicted for it."""

    def settle(self) -> None:
        """Closes what can be closed without a question."""
        gaps = self._open()
        self.state[gaps[self._alike(self.trace[gaps], self.trace[gaps + 1])]] = _Gap.SAME
        gaps = self._open()
        width = self.trace.t[gaps + 1] - self.trace.t[gaps]
        # where values cannot tell apart what is in a gap, a bend anywhere in it is as good as any
        self.state[gaps[width <= torch.maximum(self._finest(gaps), self._error(gaps) / 4)]] = _Gap.MERGED
        self.state[gaps[width <= self.bracket[gaps]]] = _Gap.KINK
        gaps = self._open()
        gaps = gaps[self._rank_tells(gaps)]
        gaps = gaps[self._rank_one(gaps)]
        meet, miss, noise = self._meeting(gaps)
        met = (miss <= noise) & (meet > self.trace.t[gaps]) & (meet < self.trace.t[gaps + 1])
        self.state[gaps[met]] = _Gap.KINK

    def plan(self) -> tuple[Tensor, Tensor]:
        """The open gaps and where to ask in each.

        With `believe`, gaps whose prediction held on its longer side wait until no others are left, and are then not
        asked about the shorter side: the few that are wrong show on later lines, and mending them costs less.
        """
        gaps = self._open()
        t, half = self._next(gaps)
        if not self.believe:
            return gaps, t
        if bool(half.all()):
            self.state[gaps] = _Gap.KINK
        return gaps[~half], t[~half]

    def _next(self, gaps: Tensor) -> tuple[Tensor, Tensor]:
        """Where to ask: beside the point where the pieces meet, else in the middle; and which held on one side."""
        meet, error = self._meeting(gaps)[0], self._error(gaps)
        left, right = self.trace.t[gaps], self.trace.t[gaps + 1]
        margin = torch.maximum(torch.maximum(error, self._finest(gaps)), self.bracket[gaps] / 4)
        ahead, behind = right - meet, meet - left
        # just outside, a point at the end of a gap may lie on the bend; unless it was asked to test the prediction
        nearest, rank_tells = torch.minimum(ahead, behind), self._rank_tells(gaps)
        inside = (nearest > 0) | ((nearest > -margin) & (self.bracket[gaps] == 0) & ~rank_tells)
        predicted = inside & (error < 0.02 * (right - left)) & (margin < 0.2 * (right - left))
        t = torch.where(ahead > behind, meet + margin, meet - margin)
        t = torch.where(behind <= 2 * margin, left + 2 * margin, t)
        t = torch.where(ahead <= 2 * margin, right - 2 * margin, t)
        half = predicted & (self.bracket[gaps] > 0) & (nearest <= 2 * margin)
        # where rank tells, a gap still open holds two bends or more: the point is as good as any, but proves nothing
        self.bracket[gaps] = torch.where(predicted & ~rank_tells, 4 * margin, 0.0)
        return torch.where(predicted, t, _middle(left, right)), half

    def insert(self, gaps: Tensor, answer: Trace) -> None:
        """Splits each gap at its answer. The half that still lies between the two pieces keeps their prediction."""
        bracket = torch.where(self._alike(answer, self.trace[gaps]), self.bracket[gaps], 0.0)
        self.bracket[gaps] *= self._alike(answer, self.trace[gaps + 1])
        self.trace = self.trace.join(answer)
        order = torch.argsort(self.trace.t, stable=True)
        self.trace = self.trace[order]
        self.state = torch.cat([self.state, torch.full_like(gaps, _Gap.OPEN)])[order]
        self.bracket = torch.cat([self.bracket, bracket])[order]

    def bends(self, rounds: int) -> Bends:
        """The closed kinks, and one merged bend for every other gap over which the gradient changes."""
        gaps = (self.state != _Gap.SAME).nonzero()[:, 0]
        left, right = self.trace.t[gaps], self.trace.t[gaps + 1]
        meet = torch.nan_to_num(self._meeting(gaps)[0]).clamp(left, right)
        jump = self.trace.g[gaps + 1] - self.trace.g[gaps]
        merged = self.state[gaps] != _Gap.KINK
        return Bends(meet, jump, merged, self._error(gaps), self._g_noise(gaps), self.trace, rounds)

    def _error(self, gaps: Tensor) -> Tensor:
        """How far off the point may be where the pieces beside a gap are predicted to meet."""
        bend = ((self.trace.g[gaps + 1] - self.trace.g[gaps]) @ self.along).norm(dim=1)
        error: Tensor = 2 * self._meeting(gaps)[2] / bend
        return error

    def _finest(self, gaps: Tensor) -> Tensor:
        return self.resolution * (1 + torch.maximum(self.trace.t[gaps].abs(), self.trace.t[gaps + 1].abs()))

    def _open(self) -> Tensor:
        return (self.state == _Gap.OPEN).nonzero()[:, 0]

    def _g_noise(self, gaps: Tensor) -> Tensor:
        return self.trace.g_noise[gaps] + self.trace.g_noise[gaps + 1]

    @staticmethod
    def _alike(one: Trace, other: Trace) -> Tensor:
        difference: Tensor = (one.g - other.g).flatten(1).norm(dim=1)
        return difference <= one.g_noise + other.g_noise

    def _rank_tells(self, gaps: Tensor) -> Tensor:
        """Whether a jump of rank one is of one unit.

        Not where all outputs follow one number, as a single output does and any number of them behind one unit that is
        on: there the jumps of any units together have rank one.
        """
        both = torch.cat([self.trace.g[gaps], self.trace.g[gaps + 1]], dim=2)
        rest: Tensor = _beside_lead(both).flatten(1).norm(dim=1)
        return (rest > 2 * self._g_noise(gaps)) | self.trust

    def _rank_one(self, gaps: Tensor) -> Tensor:
        """Whether the jump over a gap is w a^T up to noise."""
        rest: Tensor = _beside_lead(self.trace.g[gaps + 1] - self.trace.g[gaps]).flatten(1).norm(dim=1)
        return rest <= self._g_noise(gaps)

    def _meeting(self, gaps: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Where the pieces beside a gap meet (least squares over outputs), how far they miss, and what noise allows."""
        left, right = self.trace[gaps], self.trace[gaps + 1]
        width = right.t - left.t
        bend = (right.g - left.g) @ self.along
        ahead = right.f - left.f - (left.g @ self.along) * width[:, None]
        back = (ahead * bend).sum(1) / (bend**2).sum(1)
        noise = left.f_noise + right.f_noise + self._g_noise(gaps) * self.per_slope * width
        return right.t - back, (ahead - back[:, None] * bend).norm(dim=1), noise


def _beside_lead(matrices: Tensor) -> Tensor:
    """What of matrices [n, C, k] is beside their leading direction of the outputs."""
    lead = torch.linalg.eigh(matrices @ matrices.mT)[1][:, :, -1:]
    rest: Tensor = matrices - lead @ (lead.mT @ matrices)
    return rest


def _middle(left: Tensor, right: Tensor) -> Tensor:
    """Halfway by angle: bends along a random line are Cauchy distributed, that is uniform in arctan t."""
    middle = torch.tan((torch.atan(left) + torch.atan(right)) / 2)
    return torch.where((middle > left) & (middle < right), middle, (left + right) / 2)
