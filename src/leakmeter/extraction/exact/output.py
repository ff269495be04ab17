"""The last layer by linear regression, and the orientation of the units below it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from leakmeter.extraction.exact.decompose import svd
from leakmeter.extraction.exact.kinks import Trace
from leakmeter.extraction.exact.stack import Layer, Stack
from leakmeter.seeds import stream

_DIRECTIONS = 4
_ROUNDS, _BETTER = 40, 0.9
_FITS = 1e6
"""Times rounding: what is farther off than that is not explained."""
_FEW = 4
_UNUSED = 1e-7
"""Units that outputs make so much less of than of others are none."""
_NOTHING = 1e-4
"""A share of the weights below which a term that passes by the last layer is rounding."""


def design(stack: Stack, x: Tensor, cells: Trace, skip: bool) -> tuple[Tensor, Tensor]:
    """Weighted equations for the output rows: values, and gradients along random directions."""

    def features(p: Tensor) -> tuple[Tensor, Tensor]:
        one = torch.ones(len(p), 1, dtype=p.dtype)
        below = Stack(stack.layers[:-1]).features(p)
        return torch.cat([stack.features(p), below] if skip else [stack.features(p)], 1), one

    y, one = features(x)
    weight = 1 / cells.f_noise.clamp(min=1e-300)
    lefts, rights = [torch.cat([y, one], 1) * weight[:, None]], [cells.f * weight[:, None]]
    generator = stream(0, "exact", "directions")
    for _ in range(_DIRECTIONS):
        r = torch.randn(x.shape, generator=generator, dtype=torch.float64)
        slope = torch.cat(
            [directional(stack, x, r), *([directional(Stack(stack.layers[:-1]), x, r)] if skip else [])], 1
        )
        weight = 1 / cells.g_noise.clamp(min=1e-300)
        lefts.append(torch.cat([slope, 0 * one], 1) * weight[:, None])
        rights.append(torch.einsum("ncd,nd->nc", cells.g, r) * weight[:, None])
    return torch.cat(lefts), torch.cat(rights)


def directional(stack: Stack, x: Tensor, r: Tensor) -> Tensor:
    """The derivative of the features along r, [n, h]."""
    for layer in stack.layers:
        z = torch.addmm(layer.bias, x, layer.weight.T)
        r = layer.on(z) * (r @ layer.weight.T)
        x = layer.activate(z)
    return r


@dataclass
class Known:
    """A whole copy: layers and what the outputs make of the last one."""

    stack: Stack
    weight: Tensor
    bias: Tensor
    open: Tensor
    """Bends it does not explain, [m, d]."""
    sure: bool = False
    """Whether what the outputs make of units was read from their own bends, and no missing weight spoils it."""

    def __call__(self, x: Tensor) -> Tensor:
        """Values, [n, C]."""
        return torch.addmm(self.bias, self.stack.features(x), self.weight.T)

    @property
    def weights_known(self) -> int:
        """How many weights of hidden layers are known."""
        return sum(int(layer.known.sum()) for layer in self.stack.layers)

    def pieces(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Values [n, C] and gradients [n, C, d]."""
        if not self.stack.layers:
            return self(x), self.weight.expand(len(x), -1, -1)
        z, gradient = self.stack.slopes(x)
        return self(x), self.weight @ (self.stack.layers[-1].on(z)[:, :, None] * gradient)


def regress(stack: Stack, x: Tensor, cells: Trace) -> Known:
    """The copy with its last layer oriented; what never switched there is passed on by units without a ReLU."""
    if stack.layers:
        solution = solve(*design(stack, x, cells, True), len(x))
        stack = _oriented(stack, solution)
    solution = solve(*design(stack, x, cells, False), len(x))
    if stack.layers:
        size = solution[:-1].norm(dim=1) * stack.layers[-1].weight.norm(dim=1)
        used = size > _UNUSED * size.max() if len(size) else size > 0
        # a row that was found twice, once with a weight missing, is only needed once
        stack = Stack([*stack.layers[:-1], stack.layers[-1][used]])
        solution = torch.cat([solution[:-1][used], solution[-1:]])
    return Known(stack, solution[:-1].T, solution[-1], x[:0])


def passed_by(stack: Stack, x: Tensor, cells: Trace) -> Tensor:
    """The rows [p, units below] of what passes by the last hidden layer; none if they are many: units are missing."""
    top = _oriented(stack, solve(*design(stack, x, cells, True), len(x))).layers[-1]
    return top.weight[top.linear] if int(top.linear.sum()) <= _FEW else top.weight[:0]


def _oriented(stack: Stack, solution: Tensor) -> Stack:
    top = stack.layers[-1]
    w, c = solution[: len(top.bias)].T, solution[len(top.bias) : -1].T
    turned, rest = flips(w, c, top.weight)
    top, least = top.turned(turned), _NOTHING * float(w.norm() * top.weight.norm())
    if float(rest.norm()) > least:
        size, rows = svd(rest)[1:]
        top = top.join(Layer.passing(rows[size > least]))
    return Stack([*stack.layers[:-1], top])


def solve(left: Tensor, right: Tensor, n: int) -> Tensor:
    """Least squares in which cells that do not fit count less: a missing unit spoils some places and not others.

    Trust goes to the quarter that fits best, as long as that makes it fit much better.
    """
    scale = left.norm(dim=0).clamp(min=1e-300)
    trust, before = left.new_ones(n), math.inf
    for _ in range(_ROUNDS):
        weight = trust.repeat(len(left) // n)[:, None]
        solution = least_squares(left / scale * weight, right * weight, rcond=1e-13)
        off = (left / scale @ solution - right).square().sum(1).reshape(-1, n).sum(0).sqrt()
        typical = float(off.quantile(0.25).clamp(min=10.0))
        if float(off.max()) <= min(100 * typical, _FITS) or typical > _BETTER * before:
            break
        trust, before = 1 / (1 + (off / typical).square()), typical
    found: Tensor = solution / scale[:, None]
    return found


def least_squares(left: Tensor, right: Tensor, rcond: float | None = None) -> Tensor:
    """The solution; what overflowed on the way is an error of linear algebra here, not one of the library below."""
    if not bool(left.isfinite().all() & right.isfinite().all()):
        raise torch.linalg.LinAlgError("equations that are not finite")  # type: ignore[attr-defined]
    found: Tensor = torch.linalg.lstsq(left, right, driver="gelsd", rcond=rcond).solution
    return found


def flips(w: Tensor, c: Tensor, below: Tensor) -> tuple[Tensor, Tensor]:
    """Which units face the other way: c = -sum of f_i w_i below_i, and what of c that leaves."""
    gram = (w.T @ w) * (below @ below.T)
    target = -torch.einsum("ci,cd,id->i", w, c, below)
    f = least_squares(gram, target[:, None])[:, 0]
    turned = f > 0.5
    return turned, c + (w * turned) @ below
