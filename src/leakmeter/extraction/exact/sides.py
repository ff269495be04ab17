"""On which side of its own surface a unit is on, from the Jacobians on both sides of its bends.

There the victim's Jacobian is a sum over the units that are on, of what the outputs make of a unit times its gradient:
on one side with the unit's own term, on the other without. The term itself is the jump between them, so the question is
which of the two Jacobians has it. Where gradients of the others are independent of it that is seen at once; in layers
with more units than the input has directions left, the others' terms are noise in which a known signal is looked for,
bend by bend. What one unit's side tells of which units are on makes the noise less for all others.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from leakmeter.extraction.exact.bank import Bank
from leakmeter.extraction.exact.stack import Stack

_ROUNDS = 12
_CHUNK = 64
_EVEN = 0.1
"""The share of the outputs' directions that is taken to be even, whatever bends show."""
_FEW, _ENOUGH = 2, 24
"""Bends of a unit from which something is expected of it; and so many are looked at."""
_SETTLED = 20.0
"""Where odds are above e to the so many, they are not computed again."""
_MOST = 20.0
"""The largest logarithm of odds that one bend may add: the noise is a guess."""


@dataclass(frozen=True)
class _Bends:
    """Bends of a layer's units: whose, everybody's values and gradients there, and the mean of both Jacobians."""

    unit: Tensor
    z: Tensor
    gradient: Tensor
    mean: Tensor
    term: Tensor
    """What the outputs make of the unit, [m, C], taking it for on where it is positive."""
    rest: Tensor
    """The power in each direction of what no combination of the layer's gradients explains, [m]: of missing units."""


def odds(stack: Stack, bank: Bank, matched: Tensor, basis: Tensor, tolerance: float) -> Tensor:
    """Logarithms of the odds that each unit of the last layer is on where it is positive, [h]; 0 where nothing tells.

    `matched` [m, h] says which bends are whose, `basis` [d, r] spans what the first layer sees.
    """
    bends = _collected(stack, bank, matched, basis)
    found = stack.layers[-1].bias.new_zeros(len(stack.layers[-1].bias))
    if not len(bends.unit):
        return found
    size = bends.term.norm(dim=1).clamp(min=1e-300)
    even = torch.eye(bends.term.shape[1], dtype=size.dtype) / bends.term.shape[1]
    outputs = (bends.term / size[:, None]).T @ (bends.term / size[:, None]) / len(size)
    whiten = torch.linalg.inv((1 - _EVEN) * outputs + _EVEN * even)
    mean, spread = _usual(bends.unit, bends.term, len(found))
    linear = stack.layers[-1].linear
    settled = torch.zeros_like(linear)
    for _ in range(_ROUNDS):
        asked = (~settled[bends.unit]).nonzero()[:, 0]
        if not len(asked):
            break
        on = torch.where(linear, 1.0, torch.sigmoid(torch.sign(bends.z) * found))
        # a unit that faces the other way is on where it is negative here, and then its gradient is the opposite
        expected = torch.where(linear, 0.0, torch.sign(bends.z)) * on
        power = on * spread + on * (1 - on) * mean.square().sum(1)
        vote = torch.cat(
            [
                _votes(bends, rows, expected[rows, :, None] * mean, power[rows], whiten, tolerance)
                for rows in torch.split(asked, _CHUNK)
            ]
        )
        new = torch.zeros_like(found).index_add(0, bends.unit[asked], vote.clamp(-_MOST, _MOST))
        found = torch.where(settled, found, (found + new) / 2)
        settled |= (found * new > 0) & (torch.minimum(found.abs(), new.abs()) > _SETTLED)
    return found


def _collected(stack: Stack, bank: Bank, matched: Tensor, basis: Tensor) -> _Bends:
    shown = matched & bank.clear[:, None]
    rows, unit = (shown & (shown.cumsum(0) <= _ENOUGH)).nonzero(as_tuple=True)
    parts = []
    for some in torch.split(torch.arange(len(rows)), _CHUNK) if len(rows) else ():
        z, gradient = stack.slopes(bank.x[rows[some]], basis)
        left, right = bank.beside(rows[some], basis)
        own = gradient[torch.arange(len(some)), unit[some]]
        ahead = torch.sign((own * (bank.along(rows[some]) @ basis)).sum(1))
        jump = (right - left) * ahead[:, None, None]
        term = (jump @ own[:, :, None])[:, :, 0] / own.square().sum(1, keepdim=True)
        off = (jump - term[:, :, None] * own[:, None]).flatten(1).norm(dim=1) / jump.flatten(1).norm(dim=1)
        fits = off < 1e-2
        mean = (left + right) / 2
        parts.append([part[fits] for part in (unit[some], z, gradient, mean, term, _rest(gradient, mean))])
    if not parts:
        return _Bends(unit[:0], *(basis[:0],) * 5)
    return _Bends(*(torch.cat(column) for column in zip(*parts, strict=True)))


def _rest(gradient: Tensor, jacobian: Tensor) -> Tensor:
    """The power a direction of Jacobians [n, C, r] beside all gradients [n, h, r], [n]; 0 where none is left over."""
    free = gradient.shape[2] - gradient.shape[1]
    if free <= 0:
        return gradient.new_zeros(len(gradient))
    q = torch.linalg.qr(gradient.mT)[0]
    rest: Tensor = (jacobian - jacobian @ q @ q.mT).flatten(1).square().sum(1) / free
    return rest


def _usual(unit: Tensor, term: Tensor, units: int) -> tuple[Tensor, Tensor]:
    """What the outputs usually make of each unit, [h, C], and the power of what bends differ by from it, [h].

    Of a unit that few bends show nothing is expected, and the power is everybody's.
    """
    count = torch.bincount(unit, minlength=units)
    some = count > _FEW
    mean = term.new_zeros(units, term.shape[1]).index_add(0, unit, term) / count.clamp(min=1)[:, None]
    mean = torch.where(some[:, None], mean, 0.0)
    apart = (term - mean[unit]).square().sum(1)
    spread = term.new_zeros(units).index_add(0, unit, apart) / (count - 1).clamp(min=1)
    everybody = term.square().sum(1).mean()
    return mean, torch.where(some, spread + mean.square().sum(1) / count.clamp(min=1) ** 2, everybody)


def _votes(bends: _Bends, rows: Tensor, expected: Tensor, power: Tensor, whiten: Tensor, tolerance: float) -> Tensor:
    """What each bend says about its own unit, as a logarithm of odds, [k].

    Of the others the terms [k, h, C] are expected, give or take so much power [k, h].
    """
    every, unit, gradient, term = torch.arange(len(rows)), bends.unit[rows], bends.gradient[rows], bends.term[rows]
    own = gradient[every, unit]
    expected[every, unit], power[every, unit] = 0.0, 0.0
    left = bends.mean[rows] - expected.mT @ gradient
    noise = torch.einsum("nh,nhr,nhs->nrs", power, gradient, gradient)
    least = own.square().sum(1) * term.square().sum(1)  # a unit alone in its layer meets no noise
    floor = tolerance**2 * torch.maximum(noise.diagonal(dim1=1, dim2=2).amax(1), least).clamp(min=1e-200)
    noise = noise + (floor + bends.rest[rows])[:, None, None] * torch.eye(noise.shape[1], dtype=noise.dtype)
    look = torch.linalg.solve(noise, own[:, :, None])[:, :, 0]
    # the mean of both holds half of the term, or half of its opposite, in Gaussian noise
    found: Tensor = ((term @ whiten)[:, None] @ left @ look[:, :, None])[:, 0, 0]
    return found
