"""Units of the first layer that no line showed to switch, because they are on nearly everywhere."""

from __future__ import annotations

import torch
from torch import Tensor

from leakmeter.extraction.exact.bank import Bank
from leakmeter.extraction.exact.decompose import svd
from leakmeter.extraction.exact.output import least_squares
from leakmeter.extraction.exact.stack import Layer

_ROUNDS, _OUTLIER = 4, 5.0
_MOSTLY = 0.5
"""The share of the bends above that must show a unit which is always on."""
_FITS = 30.0
"""Times the normals' errors: how far off a unit's share may be where it is off."""


def beside(layer: Layer, bank: Bank, left: Tensor, tolerance: float) -> Tensor:
    """Directions that units above see beside the first layer's normals: of units that are always on, [r, d].

    There are few of them, against the bends that show them, and of the bends that are `left`, [m], most do: where some
    do and others do not, units are missing that are on here and off there.
    """
    basis = svd(layer.weight)[2].T
    rest = bank.normals - bank.normals @ basis @ basis.T
    told = (bank.error < tolerance) & left
    clear = told & (rest.norm(dim=1) > tolerance + 30 * bank.error)
    if int(clear.sum()) <= _MOSTLY * int(told.sum()):
        return layer.weight[:0]
    values, rows = svd(rest[clear])[1:]
    noise = torch.minimum(bank.error[clear].norm(), tolerance * clear.sum().sqrt())
    found: Tensor = rows[values > 30 * noise.clamp(min=1e-3 * tolerance)]
    if len(found) > int(clear.sum()) // 4:
        return layer.weight[:0]
    return _leaning(layer, found, bank.x[clear], bank.normals[clear], bank.error[clear])


def _leaning(layer: Layer, directions: Tensor, x: Tensor, normals: Tensor, error: Tensor) -> Tensor:
    """The directions [r, d] with what they share with the known units' normals.

    A unit that is off has no share in a normal of its own, so what it seems to have there is the directions', and in
    proportion to theirs. Where it is on its own share comes to that, which differs from unit to unit above.
    """
    both = torch.cat([layer.weight, directions])
    share = least_squares(both.T, normals.T).T
    own, others = share[:, : len(layer.bias)], share[:, len(layer.bias) :]
    on = torch.addmm(layer.bias, x, layer.weight.T) > 0
    lean, amplified = directions.new_zeros(len(layer.bias), len(directions)), torch.linalg.pinv(both).norm(dim=0)
    for unit in range(len(layer.bias)):
        sides = [(on[:, unit] == side).nonzero()[:, 0] for side in (False, True)]
        fits = [_proportion(others[rows], own[rows, unit]) for rows in sides if len(rows) >= 2 * len(directions) + 2]
        if fits:
            best, off = min(fits, key=lambda fit: fit[1])
            if off <= _FITS * float(error.median() * amplified[unit]):
                lean[unit] = best
    return directions + lean.T @ layer.weight


def _proportion(left: Tensor, right: Tensor) -> tuple[Tensor, float]:
    """Least squares [r] of left [n, r] against right [n] without outliers, and how far off the rest mostly is."""
    trust = torch.ones_like(right)
    for _ in range(_ROUNDS):
        found = least_squares(left * trust[:, None], (right * trust)[:, None])[:, 0]
        off = (left @ found - right).abs()
        typical = float(off.median())
        trust = (off <= _OUTLIER * typical).to(right)
    return found, typical


def lacking(layer: Layer, bank: Bank, left: Tensor, tolerance: float) -> float:
    """The share of bends that show something which no unit of a first layer does, of those `left`, [m]."""
    basis = svd(layer.weight)[2].T
    told = left & (bank.error < tolerance)
    normals = bank.normals[told]
    rest = (normals - normals @ basis @ basis.T).norm(dim=1)
    return float((rest > tolerance + 30 * bank.error[told]).double().mean()) if len(normals) else 0.0
