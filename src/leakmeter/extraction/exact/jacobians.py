"""Weights of the second of two hidden layers from Jacobians, by linear least squares in turns with which units are on.

Where it is known which units are on, what a Jacobian makes of a unit of the first layer is a sum over the second
layer's units that are on, of what the outputs make of them times the weights wanted. So each unit of the first layer
gives linear equations in the weights on it. A copy that is nearly right says which units are on; points at which it is
wrong do not fit and count less, and of what is solved for more of them fit.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leakmeter.extraction.exact.copy import DeepCopy
from leakmeter.extraction.exact.fresh import Answers

_ROUNDS = 10
_RIDGE = 1e-4
_QUARTER, _LEAST = 0.25, 1e-5
"""Points that fit as well as the best quarter count fully; what is less than this, of a Jacobian, is rounding."""


@torch.no_grad()
def solve_weights(copy: DeepCopy, stays: Tensor, told: Answers) -> None:
    """Solves for weights of the second hidden layer other than those that stay, in place, if values fit better then."""
    first, second = copy.layers[0], copy.layers[-1]
    assert isinstance(first, nn.Linear)
    assert isinstance(second, nn.Linear)
    if len(copy.layers) != 2 or told.gradients is None or first.out_features > first.in_features:
        return
    y, output, before = torch.relu(first(told.x)), copy.output.weight, second.weight.clone()
    misfit = _misfit(copy, told)
    shown = _shown(first, y > 0, told.gradients)
    size = shown.flatten(1).norm(dim=1)
    alive = size > _LEAST * size.amax()
    y, shown, size = y[alive], shown[alive], size[alive]
    for _ in range(_ROUNDS):
        on = (second(y) > 0).to(y)
        rest = shown - _made(output, on, second.weight) * (y > 0)[:, None]
        off = rest.flatten(1).norm(dim=1) / size
        typical = max(float(off.quantile(_QUARTER)), _LEAST)
        trust = 1 / (1 + (off / typical).square()) / size.square()
        for unit in range(y.shape[1]):
            free, rows = ~stays[:, unit], (y[:, unit] > 0).nonzero()[:, 0]
            if len(rows) and bool(free.any()):
                second.weight[free, unit] += _solved(
                    output[:, free], on[rows][:, free], rest[rows, :, unit], trust[rows]
                )
    if not _misfit(copy, told) < misfit:
        second.weight.copy_(before)


def _misfit(copy: DeepCopy, told: Answers) -> float:
    """How far off values mostly are, which nothing is solved for."""
    return float((copy(told.x) - told.scores).norm(dim=1).median())


def _shown(first: nn.Linear, on: Tensor, jacobians: Tensor) -> Tensor:
    """What Jacobians [n, C, d] make of the units of the first layer that are on, [n, C, h]."""
    back = torch.linalg.pinv(first.weight.double()).float()
    found: Tensor = (jacobians @ back) * on[:, None]
    return found


def _made(output: Tensor, on: Tensor, weight: Tensor) -> Tensor:
    """What the copy's Jacobians make of them, [n, C, h]."""
    passed = (output * on[:, None]).reshape(-1, output.shape[1])
    return (passed @ weight).reshape(len(on), len(output), -1)


def _solved(output: Tensor, on: Tensor, rest: Tensor, trust: Tensor) -> Tensor:
    """The change [k] of weights that makes least of the rest [m, C], units being on or not, [m, k]."""
    output, on, rest, trust = (part.double() for part in (output, on, rest, trust))
    left = (on.T @ (on * trust[:, None])) * (output.T @ output)
    right = ((rest @ output) * on * trust[:, None]).sum(0)
    left.diagonal().add_(_RIDGE * left.diagonal().amax().clamp(min=1e-300))
    found: Tensor = torch.linalg.solve(left, right).float()
    return found
