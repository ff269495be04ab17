"""Units above the first layer that no line showed to switch, because they are on nearly everywhere.

Every Jacobian is a combination of the gradients of the last layer's units that are on. Where fewer of them are on than
there are directions, what is left over is of units that are missing. A row of weights that is on everywhere must
explain what is left over everywhere: linear equations in the row, whose solutions are all such rows together.
"""

from __future__ import annotations

import torch
from torch import Tensor

from leakmeter.extraction.exact.bank import Bank
from leakmeter.extraction.exact.decompose import svd
from leakmeter.extraction.exact.stack import SAME, Layer, Stack

_CELLS = 600
"""Jacobians looked at, at most."""
_MOST = 4
"""Rows looked for, at most: more mean that units are missing which do switch."""
_FACED = 4
"""How often units may be found to face the other way after all."""
_ROUNDS = 12
_DOES, _NEARLY, _PART = 1e-4, 0.9, 0.1
_ENOUGH = 2.0
"""Equations for each unknown."""


def passing_rows(stack: Stack, bank: Bank, basis: Tensor, tolerance: float) -> tuple[Layer, Tensor, bool]:
    """The last layer; the rows [p, units below] of what it lacks, orthonormal; whether that is on nearly everywhere.

    A unit that faces the wrong way lacks wherever it is on: a row that is known already is that, and is turned.
    """
    below, top = Stack(stack.layers[:-1]), stack.layers[-1]
    for _ in range(_FACED):
        rows, seen, everywhere = _lacking(below, top, *bank.cells(_CELLS, basis), basis, tolerance)
        shown = top.weight @ seen
        alike = (rows @ top.weight.T).norm(dim=0) > (1 - SAME**2 / 2) * shown.norm(dim=1)
        alike &= shown.norm(dim=1) > _PART * top.weight.norm(dim=1)
        if not bool(alike.any()):
            return top, rows, everywhere
        top = top.turned(alike)
    return top, top.weight[:0], False


def _lacking(
    below: Stack, top: Layer, x: Tensor, jacobian: Tensor, basis: Tensor, tolerance: float
) -> tuple[Tensor, Tensor, bool]:
    """Rows of what is missing, what of rows could be seen at all [h, k], and whether that is so nearly everywhere."""
    left: list[tuple[Tensor, Tensor] | None] = []
    for i in range(len(x)):
        z, gradient = (part[0] for part in below.slopes(x[i : i + 1], basis))
        passed = below.layers[-1].on(z)[:, None] * gradient
        on = top.on(top.weight @ below.layers[-1].activate(z) + top.bias) > 0
        left.append(_equations(passed, (top.weight @ passed)[on], jacobian[i], tolerance))
    told = [place for place in left if place is not None]
    lacking = [place for place in told if len(place[0])]
    if sum(len(zero) for zero, _ in lacking) < _ENOUGH * top.weight.shape[1]:
        return top.weight[:0], top.weight.T[:, :0], False
    # rows that do nothing at any of these places satisfy everything
    seen = _span(torch.cat([effect for _, effect in lacking]), _DOES)
    rows = _solutions([zero @ seen for zero, _ in lacking], [effect @ seen for _, effect in lacking], tolerance)
    return rows @ seen.T, seen, len(lacking) > _NEARLY * len(told)


def _equations(passed: Tensor, on: Tensor, jacobian: Tensor, tolerance: float) -> tuple[Tensor, Tensor] | None:
    """What of a missing row must be zero at one place, and all that it does there: [e, units below] each.

    Given what units below pass on [h, r], gradients of units that are on [n, r], and the Jacobian [C, r]. Empty where
    nothing is missing, None where that cannot be told.
    """
    seen = _span(passed, tolerance)
    explained = _span(on, tolerance)
    sizes, directions = svd(seen.T - (seen.T @ explained) @ explained.T)[1:]
    free = directions[sizes > 0.5].T  # what is seen and no known unit explains, [r, s]: sines of angles are 0 or 1
    found = jacobian @ free
    if free.shape[1] < 2:
        return None
    if float(found.norm()) <= 10 * tolerance * float(jacobian.norm()):
        return (passed.new_zeros(0, len(passed)),) * 2
    size, rows = svd(found, full=True)[1:]
    rank = int((size > 10 * tolerance * float(jacobian.norm())).sum())
    if rank >= free.shape[1]:
        return None
    effect = (passed @ free).T / passed.norm()
    return rows[rank:] @ effect, effect


def _span(rows: Tensor, tolerance: float) -> Tensor:
    """An orthonormal basis [r, k] of what rows [n, r] span."""
    if not len(rows):
        return rows.T
    size, basis = svd(rows)[1:]
    found: Tensor = basis[size > 10 * tolerance * size[0]].T
    return found


def _solutions(zeros: list[Tensor], effects: list[Tensor], tolerance: float) -> Tensor:
    """Orthonormal rows [p, h] of which nothing is left but what should be, at most places where they do something."""
    places = torch.cat([torch.full((len(part),), i) for i, part in enumerate(zeros)])
    equations, trust = torch.cat(zeros), zeros[0].new_ones(len(zeros))
    for _ in range(_ROUNDS):  # places that do not fit count less
        size, rows = svd(equations * trust[places, None])[1:]
        off = torch.stack([(part @ rows[-1]).norm() for part in zeros])
        does = torch.stack([(part @ rows[-1]).norm() for part in effects]).clamp(min=1e-300)
        trust = 1 / (1 + (off / (off / does).quantile(0.25).clamp(min=tolerance / 10) / does).square())
    few = size <= 10 * tolerance * size[0]
    held = (off <= 10 * tolerance * does)[does > _DOES * does.max()]
    if not bool(few.any()) or int(few.sum()) > _MOST or float(held.double().mean()) < 0.5 or len(held) < len(rows):
        return equations[:0]
    found: Tensor = rows[few]
    return found


def switched(stack: Stack, bank: Bank, i: int, basis: Tensor, tolerance: float) -> Layer | None:
    """The last layer with one more unit if bend i is of what passes by it: it tells which mixture, and the bias."""
    below, top = Stack(stack.layers[:-1]), stack.layers[-1]
    z, gradient = (part[0] for part in below.slopes(bank.x[i : i + 1], basis))
    passed = below.layers[-1].on(z)[:, None] * gradient
    rows, normal = top.weight[top.linear], bank.normals[i] @ basis
    if not len(rows) or _span(passed, tolerance).shape[1] < len(rows) + 2:
        return None
    mixture = torch.linalg.lstsq((rows @ passed).T, normal[:, None], driver="gelsd").solution[:, 0]
    off = float((mixture @ rows @ passed - normal).norm())
    if not off <= tolerance + 30 * float(bank.error[i]):
        return None
    row = mixture @ rows / (mixture @ rows).norm()
    bias = -(row @ below.layers[-1].activate(z))
    side = (
        1.0 if float((below.features(bank.x) @ row + bias > 0).double().mean()) > 0.5 else -1.0
    )  # on nearly everywhere
    others = svd(mixture[None], full=True)[2][1:]
    unit = Layer.of(side * row[None], side * bias[None])
    return top[~top.linear].join(unit).join(Layer.passing(others @ rows))
