"""A line on which only values are shown, in single precision."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from leakmeter.extraction.exact.network import factor
from leakmeter.extraction.exact.polish import MISFITS, polish
from leakmeter.extraction.exact.scan import Bends, Samples, scan
from leakmeter.extraction.exact.values import Cell, ValueLine

_TRIES = 3
_CONTRADICTED = 8.0
"""A cell's gradient may miss the slope of its segment by so many times what rounding does."""
_SHARES = (math.inf, 0.1, 0.01, 0.0)
"""Of the usual weight: units lighter than that are first taken for what known ones lack."""
_NEARLY = 0.01
_BESIDE = 5e-3
"""Relative to 1 + |t|: a bend so near to where a known unit bends is what that unit lacks; fitting puts it right."""


@dataclass(frozen=True)
class Unit:
    """What one bend shows: normal [1, d], offset [1], weight [C, 1], and how far off the weight may be."""

    normal: Tensor
    offset: Tensor
    weight: Tensor
    error: float


class ScanLine(ValueLine):
    """Bends from many samples, and every unit taken as it was measured: fitting all values at once mends them."""

    def explained(self) -> bool:
        """Whether the copy predicted the far points, or, off by little, explains them once it is fitted to them."""
        off = self._values(self.far, self.answer)[0].norm(dim=1)
        nearly = bool((off <= _NEARLY * self.answer.values.norm(dim=1)).all()) and self.network.units > 0
        if super().explained() or not (nearly and self.asker.keeps):
            return super().explained()
        return polish(self.asker, self.network) <= MISFITS and super().explained()

    def explore(self) -> int:
        """Adds a unit for every bend, then fits the copy to everything asked where that can be kept."""
        bends = self._scan()
        if bends is None:
            return 0
        new = self._new(bends.t)
        found = [self._unit(*cells) for side in (1, -1) for cells in self._outwards(bends, new, side)]
        if self.asker.keeps:
            self._fit(found)
        else:
            self._add(found, 0.0)
        return bends.rounds + int(new.sum())

    def _fit(self, found: list[Unit]) -> None:
        """Adds no more units than are needed to explain what was asked, heavy ones first: the others are blur."""
        before = [part.clone() for part in self.network.buffers()]
        usual = float(self.network.weights.norm(dim=0).median()) if self.network.units else 0.0
        tried = []
        for share in _SHARES if self.network.units else (0.0,):
            self.network.restore(before)
            self._add(found, share * usual)
            left = polish(self.asker, self.network)
            tried.append((left, [part.clone() for part in self.network.buffers()]))
            if left <= MISFITS:
                break
        left, best = min(tried, key=lambda one: one[0])
        self.network.restore(best)
        self.fitted = left <= MISFITS
        self.asker.blur = 0.0  # what a fitted copy is off by is rounding, and one that is not should surprise

    def _new(self, t: Tensor) -> Tensor:
        """Which bends are not beside those of known units."""
        crossing = (self.network.offsets - self.network.normals @ self.start) / (self.network.normals @ self.along)
        return ((crossing - t[:, None]).abs() > _BESIDE * (1 + t.abs()[:, None])).all(1)

    def _outwards(self, bends: Bends, new: Tensor, side: int) -> list[tuple[Tensor, Cell, Cell]]:
        """The new bends on one side of the start, outwards, each between the cells beside it."""
        ahead = bends.t * side > 0
        t, new = bends.t[ahead], new[ahead]
        slopes = (bends.slopes[1:] if side > 0 else bends.slopes[:-1])[ahead]
        if side < 0:
            t, new, slopes = t.flip(0), new.flip(0), slopes.flip(0)
        if not len(t):
            return []
        nothing = self.start.new_zeros(self.asker.outputs, self.asker.d)
        edges, known = self._with_end(t, side), {-1: Cell(self.start, nothing[:, 0], nothing, 0.0)}
        found: list[tuple[Tensor, Cell, Cell]] = []
        for bend in new.nonzero()[:, 0].tolist():
            beside = bend - 1, bend
            if bend > 0 and not new[bend - 1] and self._narrow(edges, bend - 1):
                beside = bend - 2, bend
            if bend + 1 < len(t) and not new[bend + 1] and self._narrow(edges, bend):
                beside = beside[0], bend + 1
            for i in beside:
                if i not in known:
                    cell = self._straightened(edges[i], edges[i + 1], slopes[i])
                    if cell is None:
                        return found
                    known[i] = cell
            found.append((t[bend], known[beside[0]], known[beside[1]]))
        return found

    @staticmethod
    def _narrow(edges: Tensor, i: int) -> bool:
        return float(abs(edges[i + 1] - edges[i])) < _BESIDE * float(1 + edges[i].abs())

    def _straightened(self, near: Tensor, far: Tensor, slope: Tensor) -> Cell | None:
        """The cell between two bends, measured by shorter steps until it agrees with the slope of the line there."""
        best, least = None, float("inf")
        for attempt in range(_TRIES):
            width = float(abs(far - near)) * self._length() / 4.0**attempt
            cell = self._cell(self.at((near + far)[None] / 2)[0], width)
            if cell is None:
                break
            missed = slope - cell.gradient @ self.along
            off = float(missed.norm())
            if off < least:
                gradient = cell.gradient + missed[:, None] * self.along / self.along.square().sum()
                best, least = Cell(cell.x, cell.value, gradient, cell.error), off
            if off <= cell.error * self._length() / _CONTRADICTED:
                break
        return best

    def _unit(self, t: Tensor, near: Cell, far: Cell) -> Unit:
        """The unit that two neighbouring cells differ by."""
        self.asker.blur = math.hypot(self.asker.blur, far.error)
        jump = (far.gradient - near.gradient)[None]
        normals, weights, _ = factor(jump, torch.sign(t) * self.along[None], math.inf)
        return Unit(normals, (self.at(t[None]) * normals).sum(1), weights, math.hypot(near.error, far.error))

    def _add(self, found: list[Unit], least: float) -> None:
        """Those of at least that weight and more than rounding makes."""
        for unit in found:
            size = float(unit.weight.norm())
            if size >= least and size > unit.error / _CONTRADICTED:
                self.network.append(unit.normal, unit.offset, unit.weight)

    def _scan(self) -> Bends | None:
        def ask(t: Tensor) -> Samples:
            f, rounding = self._values(t, self.ask(t))
            return Samples(t, f, rounding)  # that the copy is off by something linear bends nothing

        ends = min(float(self.far.min()), 0.0), float(self.far.max())
        return scan(ask, ends, self._step(), self.asker.room)

    def _step(self) -> float:
        """Two bends closer than this, relative to 1 + |t|, are one."""
        return float(self.asker.eps**0.6)
