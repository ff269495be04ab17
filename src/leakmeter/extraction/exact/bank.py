"""The bends of all lines together: which are on whose surface, and which show the first layer."""

from __future__ import annotations

import torch
from torch import Tensor

from leakmeter.extraction.exact.kinks import Trace
from leakmeter.extraction.exact.stack import Layer, Stack
from leakmeter.extraction.exact.survey import Survey

_CHUNK = 64
_APART = 1e-3
"""Bends nearer to each other than this, relative to where they are, are one place: two lines meet there."""
_WIDEST = 0.03
"""No two normals farther apart than this are taken for one, however imprecise they are."""


class Bank:
    """All bends of all lines."""

    def __init__(self, surveys: list[Survey]) -> None:
        self.surveys = surveys
        self.x = torch.cat([survey.points for survey in surveys])
        self.normals = torch.cat([survey.normals for survey in surveys])
        self.error = torch.cat([survey.error for survey in surveys])
        self.line = torch.cat([torch.full((len(survey.t),), i) for i, survey in enumerate(surveys)])
        self.clear = self.error.isfinite()
        """Those that are one bend and not several, [m]."""
        self.above = torch.cat([survey.above for survey in surveys])
        """Those that are of no first layer, [m]."""
        self.long = torch.tensor([not survey.short for survey in surveys])
        """Which lines were not laid on purpose, [lines]."""

    def bend(self, row: int) -> tuple[Tensor, Tensor, float]:
        """Place, normal and how far off that may be, of one bend."""
        return self.x[row], self.normals[row], float(self.error[row])

    def along(self, rows: Tensor) -> Tensor:
        """The directions of the lines that bends lie on, [k, d]."""
        return torch.stack([self.surveys[int(line)].along for line in self.line[rows]])

    def beside(self, rows: Tensor, basis: Tensor) -> tuple[Tensor, Tensor]:
        """The Jacobians just before and just after bends, along the columns of `basis`, [k, C, r] each."""
        first = torch.searchsorted(self.line, self.line)
        found = []
        for row in rows.tolist():
            survey = self.surveys[int(self.line[row])]
            after = int(torch.searchsorted(survey.cells.t, survey.t[row - int(first[row])]))
            pair = survey.cells.g[[max(after - 1, 0), min(after, len(survey.cells.t) - 1)]]
            found.append(pair @ basis)
        both = torch.stack(found)
        return both[:, 0], both[:, 1]

    def cells(self, most: int, basis: Tensor) -> tuple[Tensor, Tensor]:
        """Some of the points whose Jacobians are known, [n, d], and these along the columns of `basis`, [n, C, r]."""
        x, cells = cells_of(self.surveys)
        sure = cells.g_noise.isfinite().nonzero()[:, 0]
        some = sure[:: len(sure) // most + 1]
        return x[some], cells.g[some] @ basis

    def lines_of(self, matched: Tensor) -> Tensor:
        """On how many long lines each unit was met, [h], given which bends are whose, [m, h]."""
        met = torch.zeros(len(self.surveys), matched.shape[1]).index_add(0, self.line, matched.float()) > 0
        return met[self.long].sum(0)


def cells_of(surveys: list[Survey]) -> tuple[Tensor, Trace]:
    """Every point of lines whose linear piece is known, [n, d], and these pieces."""
    cells = Trace.all([survey.safe_cells for survey in surveys])
    return torch.cat([survey.at(survey.cells.t) for survey in surveys]), cells


def claims(stack: Stack, bank: Bank, basis: Tensor, tolerance: float) -> tuple[Tensor, Tensor]:
    """Which bends are on which units' surfaces of the last layer, [m, h]; how many crossings lack a bend, [h].

    A unit that is really there bends every line wherever the line crosses its surface. A row that only fits the bends
    it was made from does not.
    """
    parts, normals = [], bank.normals @ basis
    for rows in torch.split(torch.arange(len(bank.x)), _CHUNK):
        z, gradient = stack.slopes(bank.x[rows], basis)
        steep = gradient.norm(dim=2).clamp(min=1e-300)
        cosine = torch.einsum("nhd,nd->nh", gradient, normals[rows]) / steep
        near = z.abs() <= tolerance * steep * (1 + bank.x[rows].norm(dim=1, keepdim=True))
        seen = stack.visible(bank.x[rows])
        angle = (tolerance + 10 * bank.error[rows, None]).clamp(max=_WIDEST)
        matched = near & seen & (1 - cosine.abs() <= angle.square())
        parts.append((matched, torch.where(near | ~seen, 0.0, torch.sign(z)), z.abs() / steep))
    matched, side, away = (torch.cat(column) for column in zip(*parts, strict=True))
    if len(stack.layers) == 1:
        matched &= away <= _nearest(bank, torch.where(matched, away, torch.inf))[bank.line]
    return matched & ~stack.layers[-1].linear, _missing(stack, bank, side)


def _nearest(bank: Bank, away: Tensor) -> Tensor:
    """How near each line's nearest bend is to each hyperplane, [lines, h]: a line crosses one once.

    Where a single unit of the first layer is on, units above bend in parallel to it, and maybe close by.
    """
    rows = bank.line[:, None].expand_as(away)
    return torch.full((len(bank.surveys), away.shape[1]), torch.inf).to(away).scatter_reduce(0, rows, away, "amin")


def _missing(stack: Stack, bank: Bank, side: Tensor) -> Tensor:
    """How often each unit of the last layer should have bent a long line and did not, [h].

    Not counted: places where the victim is constant, since no unit shows there; and pairs of crossings around one
    other bend, a dip that a search steps over.
    """
    missing = torch.zeros(side.shape[1])
    for i in bank.long.nonzero()[:, 0].tolist():
        survey = bank.surveys[i]
        tips = survey.at(survey.origin.new_tensor(survey.ends))
        ends = torch.sign(stack.inputs(tips)[-1]) * stack.visible(tips)
        walk = torch.cat([ends[:1], side[bank.line == i], ends[1:]])
        changes = torch.nn.functional.pad((walk[1:] * walk[:-1]) < 0, (0, 0, 1, 1))
        lone = changes[1:-1] & ~changes[:-2] & ~changes[2:]
        missing += (lone & survey.alive[:, None]).sum(0)
    return missing


def first_layer(bank: Bank, tolerance: float) -> Layer | None:
    """Units whose bends have the same normal and offset on several lines, the most precise bends first."""
    offset, scale = -(bank.normals * bank.x).sum(1), 1 + bank.x.norm(dim=1)
    free = bank.clear & bank.long[bank.line] & ~bank.above
    rows, biases = bank.normals[:0], bank.x.new_zeros(0)
    for i in bank.error.argsort().tolist():
        if not bool(free[i]):
            continue
        cosine = bank.normals @ bank.normals[i]
        angle = tolerance + 10 * (bank.error + bank.error[i]).clamp(max=_WIDEST)
        near = (offset - torch.sign(cosine) * offset[i]).abs() <= tolerance * scale.clamp(min=float(scale[i]))
        twins = (free & near & (1 - cosine.abs() <= angle.square())).nonzero()[:, 0]
        apart = (bank.x[twins] - bank.x[i]).norm(dim=1) > _APART * scale[i]  # lines may have been laid through a bend
        if not bool((apart & (bank.line[twins] != bank.line[i])).any()):
            continue
        free[twins] = False
        row, bias = _mean(bank, twins, torch.sign(cosine[twins]), scale[twins])
        known = (1 - (rows @ row).abs() < _WIDEST**2) & ((rows @ bank.x[i] + biases).abs() < tolerance * scale[i])
        if not bool(known.any()):
            rows, biases = torch.cat([rows, row[None]]), torch.cat([biases, bias[None]])
    return Layer.of(rows, biases) if len(rows) else None


def _mean(bank: Bank, twins: Tensor, side: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """One hyperplane from bends on it, by their precision."""
    weight = bank.error[twins].clamp(min=1e-16) ** -2
    row = (bank.normals[twins] * (side * weight)[:, None]).sum(0)
    row = row / row.norm()
    weight = weight / scale.square()
    bias: Tensor = -((bank.x[twins] @ row) * weight).sum() / weight.sum()
    return row, bias
