"""Rows of a layer from bends: what one bend says of a row, and which bends are of one unit."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from leakmeter.extraction.exact.stack import Stack

_CHUNK = 64
_SHARE = 1e-3
"""The least part of a row that must be common to two bends for them to be compared."""

_BESIDE = 300.0
"""Times the tolerance: what coefficients beside the largest must weigh, or any two rows agree next to that one."""


@dataclass(frozen=True)
class Evidence:
    """What every bend says about the row that bent: coefficients up to one scale a bend, the last one the bias."""

    row: Tensor
    """[m, h + 1]; zero where nothing is known."""
    known: Tensor
    """[m, h + 1]."""
    fits: Tensor
    """Whether the normal is a combination of what the units below pass on, [m]."""
    size: Tensor
    """How long the rows were before they were made one long, for normals of length one; [m]."""


def outside(stack: Stack, x: Tensor, normals: Tensor, basis: Tensor) -> Tensor:
    """How far normals are from any combination of the gradients of the last layer's units, [n].

    Such a bend is of the last layer itself or below it, or shows that a unit is missing from it.
    """
    parts = [normals.new_zeros(0)]
    for rows in torch.split(torch.arange(len(x)), _CHUNK):
        gradient, target = stack.slopes(x[rows], basis)[1], normals[rows] @ basis
        if gradient.shape[1] >= gradient.shape[2]:
            return normals.new_zeros(len(x))
        q = torch.linalg.qr(gradient.mT)[0]
        parts.append((target - torch.einsum("nrh,nsh,ns->nr", q, q, target)).norm(dim=1))
    return torch.cat(parts)


def evidence(stack: Stack, x: Tensor, normals: Tensor, error: Tensor, basis: Tensor, tolerance: float) -> Evidence:
    """What bends at x say about the rows above the last layer, whose orientations are known."""
    layer, parts = stack.layers[-1], []
    for rows in torch.split(torch.arange(len(x)), _CHUNK):
        z, gradient = stack.slopes(x[rows], basis)
        on, y, target = layer.on(z) > 0, layer.activate(z), normals[rows] @ basis
        doubt = error[rows].tolist()
        parts += [_one(*one, tolerance) for one in zip(gradient, on, y, target, doubt, strict=True)]
    return Evidence(*(torch.stack(column) for column in zip(*parts, strict=True)))


def _one(gradient: Tensor, on: Tensor, y: Tensor, target: Tensor, error: float, tolerance: float) -> tuple[Tensor, ...]:
    """Row, known, fits and size of one bend."""
    inverse, unique = _least_squares(gradient[on], tolerance)
    share = target @ inverse
    off = float((share @ gradient[on] - target).norm())
    outside = max(0.0, 1 - float(target.square().sum())) ** 0.5
    doubt, size = error * inverse.norm(dim=0), share.norm()
    row, known = target.new_zeros(len(on) + 1), torch.zeros(len(on) + 1, dtype=torch.bool)
    row[:-1][on], known[:-1][on] = share, unique & (doubt <= tolerance * size)
    row[-1] = -(share @ y[on])
    known[-1] = bool(unique.all()) & bool((doubt * y[on]).norm() <= tolerance * size)
    fits = off <= tolerance + 30 * error and outside <= 0.1 * tolerance**0.5 + 30 * error
    return row * known / size, known, torch.tensor(fits), size


def _least_squares(gradient: Tensor, tolerance: float) -> tuple[Tensor, Tensor]:
    """The pseudo-inverse [r, h] of a gradient [h, r], and which coefficients are unique, [h]."""
    if 0 < len(gradient) <= gradient.shape[1]:
        q, r = torch.linalg.qr(gradient.T)
        diagonal = r.diagonal().abs()
        if float(diagonal.min()) > 0:
            inverse = torch.linalg.solve_triangular(r, q.T, upper=True).T
            if float(inverse.norm() * gradient.norm()) < 0.1 / tolerance:
                return inverse, torch.ones(len(gradient), dtype=torch.bool)
    inverse, unique = _inverse(gradient[None], tolerance)
    return inverse[0], unique[0]


def _inverse(gradient: Tensor, tolerance: float) -> tuple[Tensor, Tensor]:
    """Pseudo-inverses [n, r, h] of gradients [n, h, r], and which units' coefficients are unique, [n, h]."""
    inverse = torch.linalg.pinv(gradient, rtol=tolerance / 10)
    resolution = torch.einsum("nhr,nrh->nh", gradient, inverse)
    return inverse, (resolution - 1).abs() < 1e-3


def pinned(left: Tensor, right: Tensor, tolerance: float) -> tuple[Tensor, Tensor]:
    """Least squares [k] of left [r, k] against right [r], and which unknowns have one answer, [k]."""
    inverse, unique = _least_squares(left.T, tolerance)
    return right @ inverse, unique


def agree(bends: Evidence, tolerance: float, least: int) -> Tensor:
    """Which pairs could be of one unit: they agree up to scale on `least` coefficients or more, [m, m]."""
    row, known = bends.row, bends.known.double()
    shared = row.square() @ known.T
    common = (row != 0).double() @ (row != 0).double().T
    distance = 1 - (row @ row.T).square() / (shared * shared.T).clamp(min=1e-300)
    share = shared / row.square().sum(1).clamp(min=1e-300)[:, None]
    several = shared.square() > (1 + _BESIDE * tolerance) * (row.pow(4) @ known.T)
    fits = bends.fits[:, None] & bends.fits & several & several.T
    same: Tensor = (common >= least) & (distance < tolerance**2) & (torch.minimum(share, share.T) > _SHARE) & fits
    return same.fill_diagonal_(False)


def merge(bends: Evidence, members: Tensor) -> tuple[Tensor, Tensor]:
    """One row [h + 1] from bends of one unit, the mean where several know a coefficient; and what is known of it."""
    order = members[torch.argsort(bends.known[members].sum(1), descending=True, stable=True)]
    total, count = bends.row[order[0]].clone(), bends.known[order[0]].double()
    for i in order[1:].tolist():
        both = bends.known[i] & (count > 0)
        mean = total / count.clamp(min=1)
        scale = (mean * bends.row[i])[both].sum() / bends.row[i][both].square().sum()
        total += scale * bends.row[i]
        count += bends.known[i]
    return total / count.clamp(min=1), count > 0


def components(pairs: Tensor) -> list[Tensor]:
    """Connected components of two or more, each as indices."""
    label = torch.arange(len(pairs))
    while True:
        lowest = torch.where(pairs, label, len(pairs)).amin(1).minimum(label)
        if torch.equal(lowest, label):
            break
        label = lowest
    groups = [(label == g).nonzero()[:, 0] for g in sorted(set(label.tolist()))]
    return [group for group in groups if len(group) >= 2]
