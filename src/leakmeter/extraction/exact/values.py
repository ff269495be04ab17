"""Our reconstruction from values alone: bends on a line from slopes, then d values in each cell, once.

A slope along the line costs two values, so finding the bends is cheap; the gradient of a cell costs d. A line with h
bends comes to about (d + 2)(h + 1) values, against the paper's d h log(h / delta).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from statistics import median

import torch
from torch import Tensor

from leakmeter.extraction.exact.asking import Asker, Pieces
from leakmeter.extraction.exact.differences import differences
from leakmeter.extraction.exact.kinks import Trace, search
from leakmeter.extraction.exact.line import Line
from leakmeter.extraction.exact.network import OneHidden, factor

_VAGUE = 0.01
"""A copy that may be off by this share of how far values move is not called complete."""
_ROUGH = 1e-4
"""Directions that hyperplanes known roughly tell apart by less than this are not moved in."""
_IMPRECISE = 6.0
"""Cells whose gradient is so many times less precise than the median are measured again where they are wider."""


@dataclass
class Cell:
    """The linear piece of what the copy lacks, through (x, value)."""

    x: Tensor
    value: Tensor
    gradient: Tensor
    error: float

    def at(self, x: Tensor) -> Tensor:
        """Its value there."""
        return self.value + self.gradient @ (x - self.x)


class ValueLine(Line):
    """A line on which only values are shown."""

    @staticmethod
    def first_piece(asker: Asker, start: Tensor, answer: Pieces) -> OneHidden:
        """By differences: d values, and one to check them."""
        flat = OneHidden(start, answer.values[0], answer.values.new_zeros(asker.outputs, asker.d))
        slopes = differences(asker, flat, start, 0 * answer.values[0], width=0.1)
        if slopes is None:
            return flat
        asker.steepest, asker.blur = float(slopes.gradient.norm()), slopes.error
        return OneHidden(start, answer.values[0], slopes.gradient)

    def explained(self) -> bool:
        """Whether the copy predicted the values at the far points."""
        f = self._values(self.far, self.answer)[0]
        return bool((f.norm(dim=1) <= self._allowed()).all())

    def decisive(self) -> bool:
        """Whether what is allowed is little against how far the values themselves moved from the start."""
        moved = (self.answer.values - self.network(self.start[None])).norm(dim=1).max()
        size = self.answer.values.norm(dim=1).max()  # a victim that is constant moves nowhere
        return bool((self._allowed() <= _VAGUE * torch.maximum(moved, _VAGUE * size)).all())

    def _allowed(self) -> Tensor:
        rounding = self._values(self.far, self.answer)[1]
        return rounding + self.bias_error() + self._blur(self.far)

    def explore(self) -> int:
        """Finds the bends by slopes, then walks outwards from the start and pays for the gradient of each cell."""
        if self.asker.room(len(self.far)) < len(self.far):
            return 0
        bends, rounds = self._bends()
        sides = [self._walk(bends[torch.sign(bends) == side], side) for side in (1, -1)]
        first = self._measure_again(sides)
        found = [self._bend(*pair) for cells in sides for pair in pairwise(cells)]
        if found:
            self.asker.blur = (self.asker.blur**2 + sum(cell.error**2 for cells in sides for cell in cells[1:])) ** 0.5
            self.learn(torch.stack([t for t, _ in found]), torch.stack([jump for _, jump in found]))
            self.network.skip = self.network.skip + first.gradient
            self.network.shift = self.network.shift + first.at(0 * first.x)
        return rounds + len(found)

    def _bends(self) -> tuple[Tensor, int]:
        """Where the line bends, and the rounds of questions that took."""
        bends = search(
            lambda t: self._trace(t, self.ask(t)),
            self.with_start(self._trace(self.far, self.answer)),
            self.start.new_ones(1),
            resolution=4 * self._step(),
            room=lambda wanted: self.asker.room(2 * wanted) // 2,
        )
        return bends.t, bends.rounds

    def _walk(self, t: Tensor, side: int) -> list[Cell]:
        """The cells on one side of the start, outwards from the one it lies in; fewer where the budget ends."""
        t = self._apart(t, side)
        cells = [self._first()]
        for bend, following in pairwise(self._with_end(t, side)):
            width = float(abs(following - bend)) * self._length()
            cell = self._cell(self.at((bend + following)[None] / 2)[0], width)
            if cell is None:
                break
            cells.append(cell)
        return cells

    def _first(self) -> Cell:
        """The cell that the start lies in, where nothing is unexplained; how precisely matters on the first line."""
        nothing = self.start.new_zeros(self.asker.outputs, self.asker.d)
        return Cell(self.start, nothing[:, 0], nothing, 0.0 if self.network.units else self.asker.blur)

    def _apart(self, t: Tensor, side: int) -> Tensor:
        """Bends on one side, outwards; a slope taken across a bend looks like a tiny cell."""
        t = t[torch.argsort(t * side)]
        return t[torch.diff(t.abs(), prepend=t.new_zeros(1)) > 16 * self._step() * (1 + t.abs())]

    def _with_end(self, t: Tensor, side: int) -> Tensor:
        """Bends, and the end of the cell behind the last of them."""
        return torch.cat([t, (2 * t[-1:].abs() + 1).clamp(max=self.length) * side])

    def _bend(self, near: Cell, far: Cell) -> tuple[Tensor, Tensor]:
        """Where on the line two pieces meet, and the jump between them as t rises."""
        jump = far.gradient - near.gradient
        slope = jump @ self.along
        t = -((far.at(self.start) - near.at(self.start)) @ slope) / (slope @ slope)
        return t, jump * torch.sign(t)

    def _cell(self, x: Tensor, width: float) -> Cell | None:
        """The piece around x, which is about as far as `width` from where its cell ends; None where the budget ends."""
        if self.asker.room(1) == 0:
            return None
        x = self.asker.rounded(x[None])[0]
        value = self.asker.ask(x[None]).values[0] - self.network(x[None])[0]
        slopes = differences(self.asker, self.network, x, value, width)
        if slopes is None:
            return None
        total = slopes.gradient + self.network.pieces(x[None])[1][0]
        self.asker.steepest = max(self.asker.steepest, float(total.norm()))
        return Cell(x, value, slopes.gradient, slopes.error)

    def _measure_again(self, sides: list[list[Cell]]) -> Cell:
        """Measures the least precise cells again, far from all hyperplanes now known roughly: there they are wide.

        Returns the cell of the start.
        """
        first = sides[0][0]
        errors = [cell.error for cells in sides for cell in cells[1:]]
        found = [self._bend(*pair) for cells in sides for pair in pairwise(cells)]
        if not found:
            return first
        t, jumps = (torch.stack(column) for column in zip(*found, strict=True))
        normals, _, rows = factor(jumps, self.along.expand(len(t), -1), float("inf"))
        offsets = torch.cat([(self.at(t[rows]) * normals).sum(1), self.network.offsets])
        normals = torch.cat([normals, self.network.normals])
        most = _IMPRECISE * median(errors)
        if first.error > most:
            first = self._wider(first, normals, offsets) or first
        for cells in sides:
            cells[0] = first
            for i, cell in enumerate(cells[1:], 1):
                if cell.error > most:
                    cells[i] = self._wider(cell, normals, offsets) or cell
        return first

    def _wider(self, cell: Cell, normals: Tensor, offsets: Tensor) -> Cell | None:
        """The same piece measured where no hyperplane is nearer than half of them are now, if that is more precise."""
        side = torch.sign(normals @ cell.x - offsets)
        # far from the start values are large, and so is their rounding; on the way there may be units not known yet
        for x in (self.start, cell.x):
            distance = normals @ x - offsets
            least = float(distance.abs().median())
            wanted = side * distance.abs().clamp(min=least)
            # hyperplanes found twice, once imprecisely, must not send it off to where nothing is told from rounding
            move = torch.linalg.lstsq(normals, wanted - distance, driver="gelsd", rcond=_ROUGH).solution
            place = self.asker.rounded((x + move)[None])[0]
            if x is self.start and not bool(((normals @ place - offsets) * side >= least / 2).all()):
                continue
            wide = self._cell(place, least)
            if wide is None or wide.error > cell.error:
                continue
            if float((wide.value - cell.at(wide.x)).norm()) <= cell.error * float((wide.x - cell.x).norm()):
                return wide
        return None

    def _length(self) -> float:
        return float(self.along.square().mean().sqrt())

    def _step(self) -> float:
        """Between the two values of a slope, relative to 1 + |t|."""
        return float(self.asker.eps**0.4)

    def _values(self, t: Tensor, answer: Pieces) -> tuple[Tensor, Tensor]:
        """What the copy leaves unexplained, and how far rounding may have moved it."""
        x = self.asker.rounded(self.at(t))
        return answer.values - self.network(x), self.rounding(x, answer)

    def _blur(self, t: Tensor) -> Tensor:
        """How far the copy itself may be off, its gradients having been made from differences."""
        return 8 * self.asker.blur * t.abs() * self._length()

    def _trace(self, t: Tensor, answer: Pieces) -> Trace:
        """Values, and slopes from a second value a small step nearer to the start."""
        step = self._step() * (1 + t.abs()) * torch.sign(t)
        f, rounding = self._values(t, answer)
        nearer, _ = self._values(t - step, self.ask(t - step))
        slope = (f - nearer) / step[:, None]
        return Trace(t, f, slope[:, :, None], rounding + self._blur(t), 2 * rounding / step.abs() + self._blur(t / t))
