"""A line through the victim's input space with every bend on it: what layers are later read from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from leakmeter.extraction.exact.asking import Asker, Pieces
from leakmeter.extraction.exact.kinks import Trace, search
from leakmeter.extraction.exact.line import SaturatedError

_INNER = 7
"""Places of a line asked before it is searched, beside its ends."""
_PRECISE, _NEW = 1e-3, 1e-2
"""Normals known less well than this tell nothing of their layer; of one that is new, this share at least is."""
SLACK = 8.0
"""Rounding is taken to be at most so many times what one operation does."""


@dataclass(frozen=True)
class Survey:
    """One searched line, x = origin + t along between its ends."""

    origin: Tensor
    along: Tensor
    ends: tuple[float, float]
    t: Tensor
    """Where it bends, rising, [m]."""
    normals: Tensor
    """The direction of input space in which the gradient jumps, length one, [m, d]."""
    error: Tensor
    """How far off a normal may be, [m]; infinite where several bends could not be told apart."""
    cells: Trace
    """Every point whose gradient is known."""
    short: bool
    """Whether it was laid across one unit's surface, and says nothing about how often units are met."""

    @property
    def points(self) -> Tensor:
        """The bends, [m, d]."""
        return self.at(self.t)

    @cached_property
    def alive(self) -> Tensor:
        """Between which neighbours of (end, bends, end) the victim is not constant, [m + 1]: else units hide there."""
        edges = torch.cat([self.t.new_tensor(self.ends[:1]), self.t, self.t.new_tensor(self.ends[1:])])
        slope = self.cells.g.flatten(1).norm(dim=1)
        least = torch.maximum(1e-6 * slope.amax(), self.cells.g_noise) if len(slope) else slope
        moving = self.cells.t[slope > least]
        gap = torch.searchsorted(edges, moving) - 1
        found = torch.zeros(len(edges) - 1, dtype=torch.bool)
        found[gap.clamp(0, len(found) - 1)] = True
        return found

    @cached_property
    def safe_cells(self) -> Trace:
        """The cells, gradients beside a bend given no weight: rounding decides which side of it they are of."""
        if not len(self.t):
            return self.cells
        apart = (self.cells.t[:, None] - self.t).abs().amin(1)
        beside = apart <= 1e-6 * (1 + self.cells.t.abs()) * (1e-3 if self.short else 1.0)
        return replace(self.cells, g_noise=torch.where(beside, torch.inf, self.cells.g_noise))

    @cached_property
    def above(self) -> Tensor:
        """Which bends are of no first layer, [m]: what bends is seen on both sides of them already.

        A line crosses a unit's hyperplane once, and on the side where the unit is off no Jacobian has a share of its
        row. What bends above mixes rows that are on around it, which the Jacobians on both sides soon tell.
        """
        ends = self.cells.g[[0, -1]] if len(self.cells.t) else self.normals.new_zeros(2, 0, self.normals.shape[1])
        order = torch.arange(len(self.t))
        before, behind = _told(ends[0], self, order), _told(ends[1], self, order.flip(0))
        return before & behind

    def at(self, t: Tensor) -> Tensor:
        """Points of the line, [n, d]."""
        return self.origin + t[:, None] * self.along


def even(surveys: list[Survey]) -> bool:
    """Whether short lines took no more questions than the others."""
    asked = [(len(survey.cells.t), survey.short) for survey in surveys]
    return sum(n for n, short in asked if short) <= sum(n for n, short in asked if not short)


def _told(rows: Tensor, survey: Survey, order: Tensor) -> Tensor:
    """Which normals are combinations of the rows [C, d] at one end and of the normals met before, [m]."""
    basis = survey.normals.new_zeros(0, survey.normals.shape[1])
    for row in rows:
        basis, _ = _widened(basis, row / rows.norm().clamp(min=1e-300))
    found = torch.zeros(len(order), dtype=torch.bool)
    for i in order.tolist():
        if not bool(survey.error[i] <= _PRECISE):
            after = int(torch.searchsorted(survey.cells.t, survey.t[i]))
            for row in survey.cells.g[max(after - 1, 0) : after + 1].flatten(0, 1):
                basis, _ = _widened(basis, row / rows.norm().clamp(min=1e-300))
            continue
        basis, found[i] = _widened(basis, survey.normals[i])
    return found


def _widened(basis: Tensor, row: Tensor) -> tuple[Tensor, bool]:
    """The orthonormal basis [k, d] with one more row in it; whether it was in it, and it leaves directions free."""
    rest = row - (basis @ row) @ basis
    rest = rest - (basis @ rest) @ basis
    size = float(rest.norm())
    if size > _NEW and len(basis) < len(row):
        return torch.cat([basis, rest[None] / size]), False
    return basis, len(basis) < len(row)


Surveyor = Callable[[Asker, Tensor, Tensor, tuple[float, float], bool, Trace | None, bool], Survey]
"""Searches a line given its origin, direction and ends, whether it is a short one, what is known of it, and whether
pieces that meet can be trusted to be neighbours."""


def gradient_survey(
    asker: Asker,
    origin: Tensor,
    along: Tensor,
    ends: tuple[float, float],
    short: bool,
    known: Trace | None = None,
    trust: bool = False,
) -> Survey:
    """Searches a line on which values and gradients are shown; what is `known` of it is not asked again.

    With `trust` a single output's pieces that meet are taken for neighbours (see `kinks.search`).

    Raises:
        SaturatedError: where a probability on the way cannot be read.
    """

    def ask(t: Tensor) -> Trace:
        ideal = origin + t[:, None] * along
        return trace(asker, t, ideal, readable(asker.ask(ideal)))

    start = ask(first_positions(ends, short, asker.room)) if known is None else known
    bends = search(ask, start, along, resolution=8 * asker.eps, room=asker.room, trust=trust)
    lead, size, error = leading(bends.jump, bends.noise)
    error = torch.where(bends.merged, torch.inf, error)
    return Survey(origin, along, ends, bends.t, lead / size[:, None], error, bends.cells, short)


def first_positions(ends: tuple[float, float], short: bool, room: Callable[[int], int]) -> Tensor:
    """Where to ask first, rising: not at the ends alone, which may both be where the victim is constant."""
    t = torch.tensor(ends, dtype=torch.float64)
    if short or room(_INNER + 8) < _INNER + 8:
        return t
    low, high = torch.atan(t).tolist()
    inner = torch.tan(torch.linspace(low, high, _INNER + 2, dtype=torch.float64)[1:-1])
    return torch.cat([t[:1], inner, t[1:]])


def readable(answer: Pieces) -> Pieces:
    """The same, if probabilities can be read."""
    if not bool(answer.usable.all()):
        raise SaturatedError
    return answer


def trace(asker: Asker, t: Tensor, ideal: Tensor, answer: Pieces) -> Trace:
    """Answers with gradients, moved from the rounded points the victim saw onto the line."""
    assert answer.gradients is not None
    x = asker.rounded(ideal)
    f = answer.values + torch.einsum("ncd,nd->nc", answer.gradients, ideal - x)
    f_noise = SLACK * asker.eps * (answer.size + asker.steepest * x.square().mean(1).sqrt())
    return Trace(t, f, answer.gradients, f_noise, torch.full_like(t, SLACK * asker.eps * asker.steepest))


def leading(jump: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The normals [m, d] of jumps [m, C, d], as long as the jumps are; their lengths; and how far off they may be."""
    first = torch.linalg.eigh(jump @ jump.mT)[1][:, :, -1:]
    lead = (first.mT @ jump)[:, 0]
    size = lead.norm(dim=1).clamp(min=1e-300)
    rest = (jump - first @ lead[:, None]).flatten(1).norm(dim=1)
    return lead, size, torch.maximum(noise, rest) / size
