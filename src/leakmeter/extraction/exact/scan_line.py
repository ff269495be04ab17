"""A line on which only values are shown, in single precision."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from leakmeter.extraction.exact.network import factor
from leakmeter.extraction.exact.polish import MISFITS, polish, unexplained
from leakmeter.extraction.exact.scan import Bends, Samples, scan
from leakmeter.extraction.exact.sharpen import sharpen
from leakmeter.extraction.exact.values import Cell, ValueLine

_TRIES = 3
_CONTRADICTED = 2.0
"""A cell's gradient may miss the slope of its segment by so many times what rounding does."""
_NOTHING = 8.0
"""A bend so many times smaller than what rounding is taken to make is none."""
_SHARES = (math.inf, 0.1, 0.01, 0.0)
"""Of the usual weight: units lighter than that are first taken for what known ones lack."""
_TURNED, _ROUGHLY = 0.1, 0.2
"""Where nothing is fitted: outputs so much alike, and as near, are of one unit."""
_FEW = 0.1
_UNCLEAR, _FOREIGN, _SHRUNK = 0.1, 0.05, 16
_SAMPLES = 200
"""One of so many samples of a line may be off: at the very place of a bend."""
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
        if not (self.asker.keeps and nearly) or super().explained():
            return super().explained() and (nearly or self.network.units == 0)
        return polish(self.asker, self.network) <= MISFITS and super().explained()

    def explore(self) -> int:
        """Adds a unit for every bend, then fits the copy to everything asked where that can be kept."""
        first = len(self.asker.asked)
        bends = self._scan()
        sampled = slice(first, len(self.asker.asked))
        if bends is None:
            return 0
        new = self._new(bends) & self._clear(bends)
        found = [unit for side in (1, -1) for unit in self._outwards(bends, new, side)]
        if self.asker.keeps:
            self._fit(found, sampled)
        else:
            self._add(found, 0.0)
            # a unit still missing spoils what is measured far away
            sharpen(self.asker, self.network, self.start, all_known=int(new.sum()) <= _FEW * self.network.units)
        return bends.rounds + int(new.sum())

    def _fit(self, found: list[Unit], sampled: slice) -> None:
        """Adds no more units than are needed to explain what was asked, heavy ones first: the others are blur.

        All but a few of the values asked, that is, and all that this line was sampled by.
        """
        before = [part.clone() for part in self.network.buffers()]
        usual = float(self.network.weights.norm(dim=0).median()) if self.network.units else 0.0
        tried = []
        for share in _SHARES if self.network.units else (0.0,):
            self.network.restore(before)
            self._add(found, share * usual)
            left = polish(self.asker, self.network)
            left = max(left, MISFITS * _SAMPLES * unexplained(self.asker, self.network, sampled))
            tried.append((left, [part.clone() for part in self.network.buffers()]))
            if left <= MISFITS:
                break
        left, best = min(tried, key=lambda one: one[0])
        self.network.restore(best)
        self.fitted = left <= MISFITS
        self.asker.blur = 0.0  # what a fitted copy is off by is rounding, and one that is not should surprise

    def _new(self, bends: Bends) -> Tensor:
        """Which bends are not those of known units."""
        network, t = self.network, bends.t
        crossing = (network.offsets - network.normals @ self.start) / (network.normals @ self.along)
        apart = (crossing - t[:, None]).abs() / (1 + t.abs()[:, None])
        if self._residual:
            beside: Tensor = apart <= _BESIDE
            return ~beside.any(1)
        # nothing was fitted: what a unit adds to the outputs tells it better than where it is
        adds, weights = torch.diff(bends.slopes, dim=0), network.weights
        size = adds.norm(dim=1, keepdim=True)
        cosine = (adds / size) @ (weights / weights.norm(dim=0))
        angle = (1 - cosine.square()).clamp(min=0).sqrt()
        same: Tensor = (angle <= _TURNED + (bends.errors[1:] + bends.errors[:-1])[:, None] / size) & (apart <= _ROUGHLY)
        return ~same.any(1)

    def _clear(self, bends: Bends) -> Tensor:
        """Which bends show what they add to several outputs; others, beside a narrow gap, another line may show."""
        size = torch.diff(bends.slopes, dim=0).norm(dim=1)
        clear: Tensor = (bends.errors[1:] + bends.errors[:-1]) <= _UNCLEAR * size
        return clear | self._residual

    @property
    def _residual(self) -> bool:
        """Whether bends are looked for in what the copy lacks: where it is fitted, or no outputs tell units apart."""
        return self.asker.keeps or self.asker.outputs == 1

    def _outwards(self, bends: Bends, new: Tensor, side: int) -> list[Unit]:
        """The units that bend one side of the line, outwards.

        With several outputs not every cell must be measured: what each unit adds to them is seen by the slopes, and so
        the difference between two cells is parted among a few units between them.
        """
        ahead = int((bends.t <= 0).sum()) if side > 0 else int((bends.t < 0).sum())
        if side > 0:
            t, new, slopes = bends.t[ahead:], new[ahead:], bends.slopes[ahead:]
        else:
            t, new, slopes = (part.flip(0) for part in (bends.t[:ahead], new[:ahead], bends.slopes[: ahead + 1]))
        if not len(t):
            return []
        nothing = self.start.new_zeros(self.asker.outputs, self.asker.d)
        edges, known = self._with_end(t, side), {-1: Cell(self.start, nothing[:, 0], nothing, 0.0)}
        found: list[Unit] = []
        first = 0
        while first < len(t):
            if not new[first]:
                first += 1
                continue
            last = self._last(edges, new, first)
            beside = first - 1, last
            if first > 0 and not new[first - 1] and self._narrow(edges, first - 1):
                beside = first - 2, last
            if last + 1 < len(t) and not new[last + 1] and self._narrow(edges, last):
                beside = beside[0], last + 1
            adds = torch.diff(slopes[first : last + 2], dim=0) * side
            for again in (*reversed(beside), None):  # a cell that was left unseen contradicts what units add
                for i in beside:
                    cell = known.get(i) or self._straightened(edges[i], edges[i + 1], slopes[i + 1])
                    if cell is None:
                        return found
                    known[i] = cell
                near, far = known[beside[0]], known[beside[1]]
                units = self._units(t[first : last + 1], adds, near, far)
                if units or again is None or again < 0:
                    break
                middle, half = (edges[again] + edges[again + 1]) / 2, (edges[again + 1] - edges[again]) / _SHRUNK
                cell = self._straightened(middle - half, middle + half, slopes[again + 1])
                known[again] = cell or known[again]
            found += units
            first = last + 1
        return found

    def _last(self, edges: Tensor, new: Tensor, first: int) -> int:
        """Of the next few bends, all new, the one before the widest segment."""
        last = first
        while last + 1 < len(new) and new[last + 1] and last + 2 - first <= self.asker.outputs // 2:
            last += 1
        return first + int(torch.diff(edges[first : last + 2]).abs().argmax())

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
            there = 0.0 if self._residual else self.network.pieces(cell.x[None])[1][0]
            missed = slope - (cell.gradient + there) @ self.along
            off = float(missed.norm())
            if off < least:
                gradient = cell.gradient + missed[:, None] * self.along / self.along.square().sum()
                best, least = Cell(cell.x, cell.value, gradient, cell.error), off
            if off <= cell.error * self._length() / _CONTRADICTED:
                break
        return best

    def _units(self, t: Tensor, adds: Tensor, near: Cell, far: Cell) -> list[Unit]:
        """The units at t [n], which add about `adds` [n, C] to the outputs; none where two cells contradict that."""
        self.asker.blur = math.hypot(self.asker.blur, far.error)
        jump, error = far.gradient - near.gradient, math.hypot(near.error, far.error)
        if len(t) == 1:
            jumps = jump[None]
        else:
            lead = (adds / adds.norm(dim=1, keepdim=True).clamp(min=1e-300)).T
            rows = torch.linalg.lstsq(lead, jump).solution
            if float((jump - lead @ rows).norm()) > _FOREIGN * float(jump.norm()):
                return []
            jumps = lead.T[:, :, None] * rows[:, None]
        normals, weights, _ = factor(jumps, torch.sign(t)[:, None] * self.along, math.inf)
        offsets = (self.at(t) * normals).sum(1)
        return [Unit(normals[i : i + 1], offsets[i : i + 1], weights[:, i : i + 1], error) for i in range(len(t))]

    def _add(self, found: list[Unit], least: float) -> None:
        """Those of at least that weight and more than rounding makes."""
        for unit in found:
            size = float(unit.weight.norm())
            if size >= least and size > unit.error / _NOTHING:
                self.network.append(unit.normal, unit.offset, unit.weight)

    def _scan(self) -> Bends | None:
        def ask(t: Tensor) -> Samples:
            answer = self.ask(t)
            f, rounding = self._values(t, answer)
            # that the copy is off by something linear bends nothing; where it is not fitted, it is off by more
            return Samples(t, f if self._residual else answer.values, rounding)

        ends = min(float(self.far.min()), 0.0), float(self.far.max())
        return scan(ask, ends, self._step(), self.asker.room)

    def _step(self) -> float:
        """Two bends closer than this, relative to 1 + |t|, are one."""
        return float(self.asker.eps**0.6)
