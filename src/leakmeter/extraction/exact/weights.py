"""Asks for weights that no line has shown, at corners."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from leakmeter.extraction.exact.asking import DOUBLE, Asker
from leakmeter.extraction.exact.bank import Bank
from leakmeter.extraction.exact.corners import Box, Corner, find_corner
from leakmeter.extraction.exact.rows import pinned
from leakmeter.extraction.exact.stack import Layer, Stack
from leakmeter.extraction.exact.survey import Survey

Explore = Callable[[Tensor, Tensor, bool], Survey | None]
"""Surveys the line origin + t along, -1 <= t <= 1; None where that is not possible.

Trusting at first that it bends once (see `kinks.search`); carefully, if asked to, and nothing is asked twice."""
_STARTS = 4
_CERTAIN = 4
"""Lines on which a unit was met that no corner refutes: there, another unit may be missing."""
_RECALLED = 16
"""Bends of earlier short lines that are tried before a new one is asked for."""


@dataclass(frozen=True)
class Precision:
    """How precise normals are."""

    tolerance: float
    """How far off two that are the same may be."""
    least: int
    """Coefficients two bends must agree on to be taken for one unit's."""
    margins: tuple[float, ...]
    """How near to hyperplanes a corner may be."""

    @staticmethod
    def of(asker: Asker) -> Precision:
        """Gradients made from values need room for their steps beside a corner; single precision leaves less luck."""
        margins = (1e-1, 1e-2, 1e-3)
        if asker.explained:
            margins = (1e-3, 1e-5, 1e-7) if asker.eps < DOUBLE else (1e-2, 1e-3, 1e-4)
        return Precision(asker.eps**0.4, 3, margins)


@dataclass
class Weights:
    """Completes rows; `basis` [d, r] spans what the first layer's units see."""

    explore: Explore
    precision: Precision
    basis: Tensor
    box: Box
    worthwhile: Callable[[], bool]
    """Whether to ask for single weights rather than for another line."""
    most: int = 2**20
    """Weights to ask for at once."""

    def complete(self, stack: Stack, bank: Bank, wanted: Tensor, matched: Tensor) -> tuple[Layer, Tensor]:
        """The last layer with the wanted units' [h] weights asked for; and which of them turned out to be none, [h]."""
        full = Stack([*stack.layers[:-1], stack.layers[-1].clone()])
        top, refuted = full.layers[-1], torch.zeros_like(wanted)
        lines = bank.lines_of(matched)
        for unit in (wanted & ~top.known.all(1)).nonzero()[:, 0].tolist():
            self._recall(full, unit, bank)
            starts = bank.x[matched[:, unit]]
            outcomes = set()
            for start in starts[starts.norm(dim=1).argsort()][:_STARTS]:
                if not bool(top.known[unit].all()):
                    outcomes.add(self.ask(full, unit, start))
            refuted[unit] = False in outcomes and not bool(top.known[unit].all()) and int(lines[unit]) < _CERTAIN
        return top, refuted

    def _recall(self, stack: Stack, unit: int, bank: Bank) -> None:
        """Learns weights of a unit from short lines that were asked for at corners before, the nearest first."""
        below, top = Stack(stack.layers[:-1]), stack.layers[-1]
        rows = (~bank.long[bank.line] & bank.clear).nonzero()[:, 0]
        while len(rows):
            z, gradient = stack.slope(bank.x[rows], unit, self.basis)
            near = z.abs() / gradient.norm(dim=1).clamp(min=1e-300) / (1 + bank.x[rows].norm(dim=1))
            unknown = ((below.features(bank.x[rows]) != 0) & ~top.known[unit]).any(1)
            order = torch.where(unknown, near, torch.inf).argsort()[:_RECALLED]
            order = order[near[order] <= self.precision.margins[0]]
            if not any(self._learn(below, top, unit, *bank.bend(int(rows[i]))) for i in order.tolist()):
                return

    def ask(self, stack: Stack, unit: int, start: Tensor) -> bool | None:
        """More bends of a unit of the last layer, where weights it lacks can be seen; changes its row in place.

        False where a bend was not there that should have been: then it is no unit of this layer. None where no place
        was found to ask at. All weights at once if there is a place for it, else the half whose units are nearer to
        switching, and so on; twice as many as were last found a place for.
        """
        top, below = stack.layers[-1], Stack(stack.layers[:-1])
        layer, most = below.layers[-1], self.most if self.worthwhile() else 0
        away = below.inputs(start[None])[-1][0].abs() / layer.weight.norm(dim=1).clamp(min=1e-300)
        while most and not bool(top.known[unit].all()):
            rows = torch.where(top.known[unit], torch.inf, away).argsort()[: min(most, int((~top.known[unit]).sum()))]
            wanted = torch.zeros_like(top.known[unit]).index_fill(0, rows, True)
            corner = find_corner(stack, unit, wanted, start, self.precision.margins, self.box)
            if corner is None:
                most = len(rows) // 2
                continue
            self.most = most = max(2 * len(rows), self.most // 2)
            outcome = self._survey(below, top, unit, corner)
            if not outcome:
                return outcome
        return True if bool(top.known[unit].all()) else None

    def _survey(self, below: Stack, top: Layer, unit: int, corner: Corner) -> bool | None:
        """Whether the unit bends at a corner, and weights were learned there; None where it cannot be asked."""
        for careful in (False, True):
            survey = self.explore(corner.origin, corner.along, careful)
            if survey is None:
                return None
            bends = zip(survey.points, survey.normals, survey.error.tolist(), strict=True)
            if any(self._learn(below, top, unit, *bend) for bend in bends):
                return True
        return False

    def _learn(self, below: Stack, top: Layer, unit: int, x: Tensor, normal: Tensor, error: float) -> bool:
        """Weights of a unit from one more of its bends, those already known being given; False if it is not its own."""
        z, gradient = (part[0] for part in below.slopes(x[None], self.basis))
        on, known = below.layers[-1].on(z) > 0, top.known[unit]
        new = on & ~known
        left = torch.cat([(normal @ self.basis)[None], -gradient[new]]).T
        right = (top.weight[unit] * (on & known)) @ gradient
        solution, unique = pinned(left, right, self.precision.tolerance)
        off = float((left @ solution - right).norm()) / max(float(right.norm()), 1e-300)
        allowed = self.precision.tolerance + 30 * error
        if not bool(new.any()) or not bool(unique.all()) or not off <= allowed:
            return False
        top.weight[unit, new], top.known[unit, new] = solution[1:], True
        return True
