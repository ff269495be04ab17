"""Where to ask for weights that no bend has shown: on a unit's surface, where the units below it are barely on."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from leakmeter.extraction.exact.stack import Layer, Stack

Box = tuple[Tensor, Tensor]
"""The least and the largest value of every feature."""
_ROOM, _MOST = 8.0, 0.05
"""What is left free beside the sides of a box: so many margins, at most such a share of it."""
_STEPS, _PATIENCE, _CLIPS = 40, 3, 3
"""Newton's steps at most; without coming nearer; and how often a step is cut off at the box and finished inside."""
_RIDGE = 1e-10


@dataclass(frozen=True)
class Corner:
    """A short line x = origin + t along, -1 <= t <= 1, across the surface of a unit."""

    origin: Tensor
    along: Tensor


def find_corner(
    stack: Stack, unit: int, wanted: Tensor, start: Tensor, margins: tuple[float, ...], box: Box
) -> Corner | None:
    """A line across the surface of `unit` of the last layer where units of `wanted` [h below] are on, but barely.

    Barely: then the surface is where it would be without them, up to a shift as small as that, and the new normal
    shows their weights. From the start, by Newton's steps, each the shortest, towards all that is asked for.
    """
    below, row = Stack(stack.layers[:-1]), stack.layers[-1][unit : unit + 1]
    for margin in margins:
        origin = _approach(below, row, wanted, start, margin, _inner(box, margin))
        if origin is None:
            continue
        corner = _across(below, row, wanted, origin, margin, box)
        if corner is not None:
            return corner
    return None


def _inner(box: Box, margin: float) -> Box:
    """A smaller box, which leaves room for the line on both sides."""
    low, high = box
    room = (_MOST * (high - low)).clamp(max=_ROOM * margin)
    return low + room, high - room


def _approach(below: Stack, row: Layer, wanted: Tensor, x: Tensor, margin: float, box: Box) -> Tensor | None:
    """Towards the wanted units' hyperplanes, along the surface of the one unit above."""
    unknown = ~row.known[0]
    least, vain = torch.inf, 0
    x = x.clamp(*box)
    for _ in range(_STEPS):
        z, gradient, top, normal = _here(below, row, x)
        steep = gradient.norm(dim=1).clamp(min=1e-300)
        wrong = unknown & ~wanted & (z > -margin * steep)  # what else is unknown must be off
        must = wanted | wrong
        goal = torch.where(wanted, margin, -2 * margin) - z / steep
        left = torch.cat([(normal / normal.norm())[None], (gradient / steep[:, None])[must]])
        right = torch.cat([-(top / normal.norm())[None], goal[must]])
        if not bool(right.isfinite().all()):
            return None
        off = float(right.abs().max())
        if off <= 1e-3 * margin:
            return x
        least, vain = (off, 0) if off < 0.9 * least else (least, vain + 1)
        if vain > _PATIENCE:
            return None
        x = _step(left, right, x, box)
    return None


def _step(left: Tensor, right: Tensor, x: Tensor, box: Box) -> Tensor:
    """The shortest way to where left (y - x) = right; features that it would lead out of the box stay at its side."""
    low, high = box
    free = torch.ones_like(x, dtype=torch.bool)
    for _ in range(_CLIPS):
        inside = left * free
        gram = inside @ left.T
        gram.diagonal().add_(_RIDGE)  # rows of length one may be dependent
        step = torch.linalg.solve(gram, right) @ inside
        y = (x + step).clamp(low, high)
        right = right - left @ (y - x)
        stuck = free & (x + step != y)
        x = y
        if not bool(stuck.any()) or int((free & ~stuck).sum()) < len(right):
            break
        free &= ~stuck
    return x


def _here(below: Stack, row: Layer, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """At x [d]: what the units below compare with zero and their gradients, and the same of the one unit above."""
    z, gradient = (part[0] for part in below.slopes(x[None]))
    layer = below.layers[-1]
    return z, gradient, row.weight[0] @ layer.activate(z) + row.bias[0], (row.weight[0] * layer.on(z)) @ gradient


def _across(below: Stack, row: Layer, wanted: Tensor, x: Tensor, margin: float, box: Box) -> Corner | None:
    """The line across, along which the wanted units stay as they are, if no known unit switches on it."""
    z, gradient, _, normal = _here(below, row, x)
    q = torch.linalg.qr(gradient[wanted].T)[0]
    free = normal - q @ (q.T @ normal)
    if float(free.norm()) < 1e-3 * float(normal.norm()):
        return None
    shift = 4 * row.weight.abs().max() * z[wanted].norm() / free.norm()
    along = free / free.norm() * shift.clamp(min=margin)
    tips = torch.stack([x + along, x - along])
    ends = below.inputs(tips)
    inside = bool(((tips >= box[0]) & (tips <= box[1])).all())
    return Corner(x, along) if inside and all(bool(((z[0] > 0) == (z[1] > 0)).all()) for z in ends) else None
