"""Where to ask for weights that no bend has shown: on a unit's surface, where the units below it are barely on."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from leakmeter.extraction.exact.stack import Stack

_STEPS = 40
_MUST = 1e5


@dataclass(frozen=True)
class Corner:
    """A short line x = origin + t along, -1 <= t <= 1, across the surface of a unit."""

    origin: Tensor
    along: Tensor


def find_corner(
    stack: Stack, unit: int, wanted: Tensor, start: Tensor, basis: Tensor, margins: tuple[float, ...]
) -> Corner | None:
    """A line across the surface of `unit` of the last layer where units of `wanted` [h below] are on, but barely.

    Barely: then the surface is where it would be without them, up to a shift as small as that, and the new normal
    shows their weights. From the start, by Newton's steps, each the shortest, towards all that is asked for.
    """
    for margin in margins:
        origin = _approach(stack, unit, wanted, start, basis, margin)
        corner = None if origin is None else _across(stack, unit, wanted, origin, basis, margin)
        if corner is not None:
            return corner
    return None


def _approach(stack: Stack, unit: int, wanted: Tensor, x: Tensor, basis: Tensor, margin: float) -> Tensor | None:
    """Towards the wanted units' hyperplanes; other units' inputs stay as they are where that is possible."""
    below, unknown = Stack(stack.layers[:-1]), ~stack.layers[-1].known[unit]
    for _ in range(_STEPS):
        z, gradient = (part[0] for part in below.slopes(x[None], basis))
        top, normal = (part[0, unit] for part in stack.slopes(x[None], basis))
        steep = gradient.norm(dim=1).clamp(min=1e-300)
        wrong = unknown & ~wanted & (z > -margin * steep)  # what else is unknown must be off
        goal = torch.where(wanted, margin, torch.where(wrong, -2 * margin, z / steep)) - z / steep
        left = torch.cat([(normal / normal.norm())[None], gradient / steep[:, None]])
        right = torch.cat([-(top / normal.norm())[None], goal])
        must = torch.cat([torch.ones(1, dtype=torch.bool), wanted | wrong])
        if not bool(right.isfinite().all()):
            return None
        if float(right[must].abs().max()) <= 1e-3 * margin:
            return x
        weight = torch.where(must, _MUST, 1.0)[:, None]
        x = x + basis @ torch.linalg.lstsq(left * weight, right[:, None] * weight, driver="gelsd").solution[:, 0]
    return None


def _across(stack: Stack, unit: int, wanted: Tensor, x: Tensor, basis: Tensor, margin: float) -> Corner | None:
    """The line across, along which the wanted units stay as they are, if no known unit switches on it."""
    below = Stack(stack.layers[:-1])
    normal = stack.slopes(x[None], basis)[1][0, unit]
    z, gradient = (part[0] for part in below.slopes(x[None], basis))
    q = torch.linalg.qr(gradient[wanted].T)[0]
    free = normal - q @ (q.T @ normal)
    if float(free.norm()) < 1e-3 * float(normal.norm()):
        return None
    shift = 4 * stack.layers[-1].weight[unit].abs().max() * z[wanted].abs().sum() / free.norm()
    along = basis @ free / free.norm() * shift.clamp(min=margin)
    ends = below.inputs(torch.stack([x + along, x - along]))
    return Corner(x, along) if all(bool(((z[0] > 0) == (z[1] > 0)).all()) for z in ends) else None
