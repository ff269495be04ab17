"""Which candidates for a first layer are none, because what they see is seen on both sides of them."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from leakmeter.extraction.exact.bank import Bank
from leakmeter.extraction.exact.stack import Layer

_PRECISE = 1e-3
"""Normals known less well than this are left out."""
_FAINT = 1e-4
"""What all normals together must show of a direction, in squares, for it to count as seen."""
_HIDDEN = 0.1
"""The share of a unit's row that stays hidden where it is off."""


def seen_from_both_sides(layer: Layer, bank: Bank, tolerance: float) -> Tensor:
    """Which units are none of the first layer, [h].

    Where a unit of the first layer is off, nothing has a share of its row: neither Jacobians nor what bends above. So
    on one side of its hyperplane, on all lines together, part of the row is hidden. A unit above mixes rows that are on
    elsewhere too. Nothing is said where what is shown leaves no direction free: then others may add up to any row.
    """
    found = torch.zeros(len(layer.bias), dtype=torch.bool)
    places, rows = _shown(bank)
    size = layer.weight.norm(dim=1)
    own = layer.weight / size[:, None]
    shown, directions = torch.linalg.eigh(rows.T @ rows + own.T @ own)
    basis = directions[:, shown > _FAINT]
    if basis.shape[1] == len(basis):
        return found
    rows, own = rows @ basis, own @ basis
    z = torch.addmm(layer.bias, places, layer.weight.T) / size
    margin = tolerance * (1 + places.norm(dim=1))
    for unit in (~layer.linear).nonzero()[:, 0].tolist():
        sides = [rows[side * z[:, unit] > margin] for side in (-1, 1)]
        found[unit] = all(_hidden(seen, own[unit]) <= _HIDDEN for seen in sides)
    return found


def _shown(bank: Bank) -> tuple[Tensor, Tensor]:
    """Places and what is shown there, [n, d] each: the normals of bends, and rows of Jacobians at the ends of lines."""
    precise = bank.error <= _PRECISE
    places, rows = [bank.x[precise]], [bank.normals[precise]]
    for survey in bank.surveys:
        ends = survey.cells[torch.tensor([0, -1])] if len(survey.cells.t) else survey.cells
        for place, jacobian in zip(survey.at(ends.t), ends.g, strict=False):
            places.append(place.expand(len(jacobian), -1))
            rows.append(jacobian / jacobian.norm().clamp(min=1e-300))
    return torch.cat(places), torch.cat(rows)


def _hidden(rows: Tensor, row: Tensor) -> float:
    """The part of a row [r] that rows [n, r] do not show, as good as: of what they show faintly a part counts."""
    shown = rows.T @ rows
    shown.diagonal().add_(_FAINT / 10)
    blind = torch.cholesky_solve(row[:, None], torch.linalg.cholesky(shown))[:, 0]
    return math.sqrt(float(_FAINT / 10 * (row @ blind)))
