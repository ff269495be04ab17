"""Which candidates for a first layer are none, because what they see is seen on both sides of them."""

from __future__ import annotations

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
    elsewhere too. Nothing is said where the candidates leave no direction free: then others may add up to any row.
    """
    size = layer.weight.norm(dim=1)
    values, directions = torch.linalg.svd(layer.weight / size[:, None], full_matrices=False)[1:]
    basis = directions[values > _PRECISE].T
    found = torch.zeros(len(layer.bias), dtype=torch.bool)
    if basis.shape[1] >= basis.shape[0]:
        return found
    places, rows = _shown(bank, basis)
    z = torch.addmm(layer.bias, places, layer.weight.T) / size
    margin = tolerance * (1 + places.norm(dim=1))
    own = layer.weight @ basis / size[:, None]
    for unit in (~layer.linear).nonzero()[:, 0].tolist():
        sides = [rows[side * z[:, unit] > margin] for side in (-1, 1)]
        found[unit] = all(_hidden(seen, own[unit]) <= _HIDDEN for seen in sides)
    return found


def _shown(bank: Bank, basis: Tensor) -> tuple[Tensor, Tensor]:
    """Places [n, d] and what is shown there along the columns of `basis`, [n, r]: normals, and Jacobians at ends."""
    precise = bank.error <= _PRECISE
    places, rows = [bank.x[precise]], [bank.normals[precise] @ basis]
    for survey in bank.surveys:
        ends = survey.cells.t[[0, -1]] if len(survey.cells.t) else survey.cells.t
        for place, jacobian in zip(survey.at(ends), survey.cells.g[[0, -1]], strict=False):
            seen = jacobian / jacobian.norm().clamp(min=1e-300)
            places.append(place.expand(len(seen), -1))
            rows.append(seen @ basis)
    return torch.cat(places), torch.cat(rows)


def _hidden(rows: Tensor, row: Tensor) -> float:
    """The part of a row [r] that rows [n, r] do not show."""
    size, directions = torch.linalg.eigh(rows.T @ rows)
    blind = directions[:, size <= _FAINT]
    return float((blind.T @ row).norm())
