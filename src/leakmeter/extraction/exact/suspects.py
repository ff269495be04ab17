"""Asks about units of a first layer that few lines met: in a box, lines through one cell meet deeper units alike."""

from __future__ import annotations

import torch
from torch import Tensor

from leakmeter.extraction.exact.bank import Bank, claims
from leakmeter.extraction.exact.decompose import svd
from leakmeter.extraction.exact.sight import seen_from_both_sides
from leakmeter.extraction.exact.stack import Layer, Stack
from leakmeter.extraction.exact.weights import Explore
from leakmeter.seeds import stream

_ENOUGH = 8
"""Long lines before a unit that few of them met is suspect."""
_RARE = 0.25
_PAIRS, _PLACES = 64, 2
_DEPENDENT = 1e-3
_SHORT, _CLEAR = 1e-2, 1e-4
"""How long a line across a surface is, against the way it is part of; and at least."""


class Suspects:
    """Remembers which hyperplanes were asked about, and what came of it."""

    def __init__(self, explore: Explore, tolerance: float) -> None:
        self.explore, self.tolerance = explore, tolerance
        self.asked: list[tuple[Tensor, bool]] = []
        """Row and offset, [d + 1], and whether it is a unit of the first layer."""

    def refuted(self, layer: Layer, bank: Bank, matched: Tensor) -> Tensor:
        """Which units are none of the first layer, [h]: elsewhere on their hyperplanes nothing bends."""
        found = torch.zeros(len(layer.bias), dtype=torch.bool)
        lines = int(bank.long.sum())
        if lines < _ENOUGH:
            return found
        rare = (bank.lines_of(matched) < _RARE * lines) & ~layer.linear & matched.any(0)
        for unit in rare.nonzero()[:, 0].tolist():
            stands = self._stands(layer, unit, bank, matched[:, unit])
            found[unit] = _dependent(layer.weight[~rare], layer.weight[unit]) if stands is None else not stands
        return found

    def met_once(self, layer: Layer, bank: Bank) -> Layer:
        """Units of the first layer that one line has met, as bends elsewhere on their hyperplanes show.

        What is asked about are bends at which something shows that no known unit does, and nothing on one side.
        """
        found = layer[:0]
        if int(bank.long.sum()) < _ENOUGH:
            return found
        basis = svd(layer.weight)[2].T
        rest = (bank.normals - bank.normals @ basis @ basis.T).norm(dim=1)
        new = bank.clear & bank.long[bank.line] & ~bank.above & (rest > self.tolerance + 30 * bank.error)
        rows = new.nonzero()[:, 0]
        rows = rows[bank.error[rows].argsort()]
        units = Layer.of(bank.normals[rows], -(bank.normals[rows] * bank.x[rows]).sum(1))
        everything = svd(layer.join(units).weight)[2].T
        matched, missing = claims(Stack([units]), bank, everything, self.tolerance)
        likely = matched.any(0) & (missing == 0)
        fresh = [i for i in likely.nonzero()[:, 0].tolist() if self._asked(units, i) is None]
        likely[fresh] = ~seen_from_both_sides(units[torch.tensor(fresh, dtype=torch.long)], bank, self.tolerance)
        for i in likely.nonzero()[:, 0].tolist():
            both = layer.join(found).join(units[i : i + 1])
            if not bool(both.doubles()[-1]) and self._stands(both, len(both.bias) - 1, bank, matched[:, i]):
                found = found.join(units[i : i + 1])
        return found

    def _stands(self, layer: Layer, unit: int, bank: Bank, matched: Tensor) -> bool | None:
        """Whether it is a unit of the first layer; None where no place was found to ask at."""
        stands = self._asked(layer, unit)
        if stands is not None:
            return stands
        for attempt in range(_PLACES):
            told = None if stands else self._bends(layer, unit, bank, matched, attempt)
            stands = stands if told is None else told
        if stands is not None:
            self.asked.append((_row(layer, unit), stands))
        return stands

    def _asked(self, layer: Layer, unit: int) -> bool | None:
        """What came of asking about a unit; None where nobody did."""
        if not self.asked:
            return None
        known = torch.stack([known for known, _ in self.asked])
        alike = 1 - torch.cosine_similarity(known, _row(layer, unit)[None]).abs() <= self.tolerance**2
        return self.asked[int(alike.int().argmax())][1] if bool(alike.any()) else None

    def _bends(self, layer: Layer, unit: int, bank: Bank, matched: Tensor, attempt: int) -> bool | None:
        """Whether the victim bends at another place of a unit's hyperplane; None where no place was found."""
        place = _place(layer, unit, bank, matched, stream(len(bank.x), "exact", "suspects", str(attempt)))
        survey = None if place is None else self.explore(*place, False)
        if survey is None or not bool(survey.alive.any()):
            return None
        cosine = (survey.normals @ layer.weight[unit]).abs() / layer.weight[unit].norm()
        return bool((1 - cosine <= (self.tolerance + 10 * survey.error.clamp(max=0.03)).square()).any())


def _row(layer: Layer, unit: int) -> Tensor:
    return torch.cat([layer.weight[unit], layer.bias[unit : unit + 1]])


def _dependent(rows: Tensor, row: Tensor) -> bool:
    """Whether a row [d] is a combination of others [h, d] that leave directions free, as units above are in a cell."""
    if not 0 < len(rows) < rows.shape[1]:
        return False
    q = torch.linalg.qr(rows.T)[0]
    return float((row - q @ (q.T @ row)).norm()) <= _DEPENDENT * float(row.norm())


def _place(
    layer: Layer, unit: int, bank: Bank, matched: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor] | None:
    """A short line across a unit's hyperplane, on the way between two bends, in a cell where it was not met.

    Of many such places, beside which no other unit switches, the one farthest from where the unit was met.
    """
    z = bank.x @ layer.weight[unit] + layer.bias[unit]
    low, high = ((z * side > 0).nonzero()[:, 0] for side in (-1, 1))
    if not len(low) or not len(high):
        return None
    i, j = (side[torch.randint(len(side), (_PAIRS,), generator=generator)] for side in (low, high))
    way = bank.x[j] - bank.x[i]
    origin = bank.x[i] + (z[i] / (z[i] - z[j]))[:, None] * way
    at, slope = origin @ layer.weight.T + layer.bias, way @ layer.weight.T
    clear = (at / slope).abs().index_fill(1, torch.tensor([unit]), torch.inf).amin(1)
    seen = (bank.x[matched] @ layer.weight.T + layer.bias) > 0
    others = torch.arange(len(layer.bias)) != unit
    apart = ((at > 0)[:, None] != seen)[:, :, others].any(2).all(1)
    far = torch.cdist(origin, bank.x[matched]).amin(1)
    best = int(torch.where(apart & (clear >= _CLEAR), far, -1.0).argmax())
    if not bool(apart[best]) or float(clear[best]) < _CLEAR:
        return None
    return origin[best], way[best] * min(_SHORT, float(clear[best]) / 2)
