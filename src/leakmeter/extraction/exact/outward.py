"""Tells bends of the last hidden layer apart by what the outputs make of them.

Where a unit of the last hidden layer bends, the Jacobian jumps by `v wᵀ J`, and the column `v` of the output weights
is the same at all its bends. So bends of one unit are told by it, however few weights they share, and their rows come
with one scale. Of a unit below the last hidden layer `v` changes with the units above it that are on.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from leakmeter.extraction.exact.bank import Bank, cells_of, claims
from leakmeter.extraction.exact.decompose import svd
from leakmeter.extraction.exact.output import Known
from leakmeter.extraction.exact.rows import Evidence, evidence
from leakmeter.extraction.exact.sides import odds
from leakmeter.extraction.exact.stack import Layer, Stack
from leakmeter.extraction.exact.survey import Survey

_OUTPUTS = 3
"""So many outputs tell directions apart."""
_COMMON = 2
"""The least number of weights that tells which way a bend was crossed."""
_WIDEST = 0.03
_CONTRADICTED = 0.25
"""The share of a unit's bends that may contradict the others; where more do, it is of another layer."""
_MOST = 0.5
"""The share of bends that must be told so: else the layer is not the last hidden one."""


@dataclass(frozen=True)
class Told:
    """Units of the last hidden layer."""

    layer: Layer
    outward: Tensor
    """What the outputs make of them, [C, h]."""
    matched: Tensor
    """Which bends, of all, are theirs, [m, h]."""


def last_layer(bank: Bank, rows: Tensor, found: Evidence, basis: Tensor, tolerance: float) -> Told | None:
    """The units that the bends `rows` [k] show together, of which evidence was found; None if not the last layer's."""
    told = (found.fits & found.known[:, -1]).nonzero()[:, 0]
    if not len(told) or bank.surveys[0].cells.g.shape[1] < _OUTPUTS:
        return None
    rows, jump = rows[told], _jumps(bank, rows[told], basis)
    size = jump.norm(dim=1)
    error = bank.error[rows].clamp(min=1e-16)
    doubt = (tolerance + 10 * error).clamp(max=_WIDEST)
    row, known = found.row[told] * (size * found.size[told])[:, None], found.known[told]
    direction, groups, units = jump / size[:, None], [], []
    for group in _alike(direction, doubt):
        unit = _merged(row[group], known[group], error[group], doubt[group])
        if unit is not None and bool((bank.line[rows[group]] != bank.line[rows[group[0]]]).any()):
            units.append(unit)
            groups.append(group)
    if sum(map(len, groups)) < max(1, _MOST * len(found.fits)):
        return None
    weight, seen = (torch.stack(column) for column in zip(*units, strict=True))
    long = weight.norm(dim=1)
    layer = Layer.of(weight[:, :-1] / long[:, None], weight[:, -1] / long, seen[:, :-1])
    matched = torch.zeros(len(bank.x), len(groups), dtype=torch.bool)
    for column, group in enumerate(groups):
        matched[rows[group], column] = True
    outward = torch.stack([direction[group[0]] for group in groups], 1)
    return Told(layer, outward * long, matched)


def in_part(known: Known, surveys: list[Survey], tolerance: float) -> Known:
    """A copy of two hidden layers, weights of which are missing, read again from all bends, if these tell the second.

    Missing weights spoil a regression of what outputs make of units; what is read from bends of their own they do not.
    """
    layers = known.stack.layers
    if len(layers) != 2 or bool(layers[1].known.all()) or len(known.weight) < _OUTPUTS:
        return known
    bank, first = Bank(surveys), Stack(layers[:1])
    basis = svd(layers[0].weight)[2].T
    own = claims(first, bank, basis, tolerance)[0].any(1)
    rows = (bank.clear & ~own).nonzero()[:, 0]
    found = evidence(first, bank.x[rows], bank.normals[rows], bank.error[rows], basis, tolerance)
    told = last_layer(bank, rows, found, basis, tolerance)
    if told is None:
        return known
    stack = Stack([layers[0], told.layer])
    turned = odds(stack, bank, told.matched, basis, tolerance) < 0
    stack.layers[1] = told.layer.turned(turned)
    x, cells = cells_of(surveys)
    bias = (cells.f - stack.features(x) @ told.outward.T).median(0).values
    return Known(stack, told.outward, bias, known.open, sure=True)


def _jumps(bank: Bank, rows: Tensor, basis: Tensor) -> Tensor:
    """What the outputs make of bends' normals, [k, C]: the same whichever way a line crosses."""
    left, right = bank.beside(rows, basis)
    ahead = torch.sign((bank.along(rows) * bank.normals[rows]).sum(1))
    return torch.einsum("kcr,kr->kc", right - left, ahead[:, None] * (bank.normals[rows] @ basis))


def _alike(direction: Tensor, doubt: Tensor) -> list[Tensor]:
    """Groups of directions [m, C] that are one, the most precise first."""
    groups, left = [], doubt.argsort()
    while len(left):
        apart = (direction[left] - direction[left[0]]).norm(dim=1)
        near = apart <= doubt[left] + doubt[left[0]]
        groups.append(left[near])
        left = left[~near]
    return groups


def _merged(row: Tensor, known: Tensor, error: Tensor, doubt: Tensor) -> tuple[Tensor, Tensor] | None:
    """One row from those of a group, [k, h + 1], and what is known of it; None if they contradict each other."""
    total, weight = torch.zeros_like(row[0]), torch.zeros_like(row[0])
    left, merged, bad = known.sum(1).argsort(descending=True, stable=True).tolist(), 0, 0
    while left:
        later = []
        for i in left:
            both, side = known[i] & (weight > 0), 1.0
            if merged and int(both.sum()) < _COMMON:
                later.append(i)
                continue
            if merged:
                mean, own = total[both] / weight[both], row[i, both]
                side = 1.0 if float(mean @ own) > 0 else -1.0
                if float((side * own - mean).norm()) > 3 * float(doubt[i]) * float(row[i].norm()):
                    bad += 1
                    continue
            precision = known[i] / error[i] ** 2
            total, weight, merged = total + side * precision * row[i], weight + precision, merged + 1
        if len(later) == len(left):
            break
        left = later
    if merged < 2 or bad > _CONTRADICTED * (merged + bad):
        return None
    return total / weight.clamp(min=1e-300), weight > 0
