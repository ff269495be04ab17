"""Measures the units of a rough copy again where all of them are far from switching.

With no more units than features there are points at which every unit is as far on or off as one likes. Steps there
may be long, so rounding counts little. With several outputs a Jacobian is measured for a few units at once: what a
unit adds to every output is seen on a short line across its hyperplane, and tells the units' shares of a difference.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from leakmeter.extraction.exact.asking import Asker
from leakmeter.extraction.exact.differences import differences
from leakmeter.extraction.exact.network import OneHidden
from leakmeter.extraction.exact.probes import start_points

_AWAY = 2.0
"""How far units are from switching, times the spread of a feature."""
_ACROSS = (0.25, 0.5, 0.75)
"""Where values are asked on each side of a hyperplane, as a share of that."""
_ROUNDS, _LOOKS, _FRESH = 3, 64, 64
_ALIKE = 0.95
"""What a unit adds to the outputs must be as much like what was taken for it: else a mixture of units was met."""
_STRAIGHT = 32.0
"""Three values on one side, and Jacobians beside what units add, may be off by so many times what one operation is."""
_FOREIGN = 0.05
"""The share of a difference that units in question may leave unexplained, before others are at work."""

_OTHER = 0.5
"""How much heavier or lighter, or turned, a unit measured again may be."""


@dataclass(frozen=True)
class Across:
    """Seen on a short line across a hyperplane: where it is [d], and what the unit adds to the outputs [C]."""

    point: Tensor
    adds: Tensor
    size: float


def sharpen(asker: Asker, network: OneHidden, start: Tensor, *, all_known: bool) -> None:
    """Drops (in place) units that bend nothing where they should, and measures the others again if all are known.

    Needs several outputs, no more units than features, and open space.
    """
    if asker.outputs < 2 or network.units == 0 or network.units > asker.d or not asker.unbounded:
        return
    for _ in range(_ROUNDS):
        inverse = torch.linalg.pinv(network.normals)
        seen = [_across(asker, network, start, inverse, unit) for unit in range(network.units)]
        there = torch.ones(network.units, dtype=torch.bool)
        for unit, one in enumerate(seen):
            old = network.weights[:, unit]
            alike = 1.0 if one is None else float(one.adds @ old) / float(one.adds.norm() * old.norm())
            there[unit] = abs(alike) >= _ALIKE and (one is None or one.size > 0)
            if one is not None and bool(there[unit]):
                network.weights[:, unit] = one.adds * one.size * (1.0 if alike > 0 else -1.0)
                network.offsets[unit] = network.normals[unit] @ one.point
        network.keep(there)
        if bool(there.all()):
            break
    if all_known and bool(there.all()):
        _again(asker, network, start, {unit: one for unit, one in enumerate(seen) if one is not None})


def finish(asker: Asker, network: OneHidden, generator: torch.Generator) -> None:
    """Measures all units again, and takes that (in place) if fresh points agree better with it."""
    if asker.room(_FRESH) < _FRESH:
        return
    x = asker.rounded(start_points(asker.spec, _FRESH, generator))
    answer, before = asker.ask(x), [part.clone() for part in network.buffers()]
    missed = (answer.values - network(x))[answer.usable].norm()
    sharpen(asker, network, x[0], all_known=True)
    if not bool((answer.values - network(x))[answer.usable].norm() < missed):
        network.restore(before)


def _again(asker: Asker, network: OneHidden, start: Tensor, seen: dict[int, Across]) -> None:
    """Measures Jacobians between which a few units switch, and parts their differences among these."""
    inverse, group, sure = torch.linalg.pinv(network.normals), asker.outputs // 2, list(seen)
    wide = _AWAY * torch.ones_like(network.offsets)
    parts = [part.clone() for part in network.buffers()]
    price = (len(sure) // group + 2) * (asker.d + _LOOKS)
    if asker.room(price) < price:
        return
    before = _piece(asker, network, _place(network, start, inverse, -wide))
    if before is None:
        return
    parts[0] += before.gradient
    parts[1] += before.value - before.gradient @ before.x
    on = torch.zeros_like(wide, dtype=torch.bool)
    for first in range(0, len(sure), group):
        units = sure[first : first + group]
        on[units] = True
        after = _piece(asker, network, _place(network, start, inverse, torch.where(on, wide, -wide)))
        if after is None:
            break
        adds = torch.stack([seen[unit].adds for unit in units], dim=1)
        jump = after.gradient - before.gradient + network.weights[:, units] @ network.normals[units]
        before, rows = after, torch.linalg.lstsq(adds, jump).solution
        length = rows.norm(dim=1)
        share = length / network.weights[:, units].norm(dim=0)
        alike = ((rows / length[:, None]) * network.normals[units]).sum(1).abs()
        foreign = float((jump - adds @ rows).norm()) > _FOREIGN * float(jump.norm())
        if foreign or bool(((share - 1).abs() > _OTHER).any() or (alike < 1 - _OTHER).any()):
            continue  # one of them did not switch, or another did
        parts[2][units], parts[4][:, units] = rows / length[:, None], adds * length
        parts[3][units] = (parts[2][units] * torch.stack([seen[unit].point for unit in units])).sum(1)
    network.restore(parts)


@dataclass(frozen=True)
class _Piece:
    x: Tensor
    value: Tensor
    gradient: Tensor


def _place(network: OneHidden, start: Tensor, inverse: Tensor, wanted: Tensor) -> Tensor:
    """Where the units compare these numbers with zero."""
    return start + inverse @ (wanted - network.hidden(start[None])[0])


def _piece(asker: Asker, network: OneHidden, x: Tensor) -> _Piece | None:
    """The linear piece around x of what the network lacks; None where the budget ends."""
    if asker.room(asker.d + 2) < asker.d + 2:
        return None
    x = asker.rounded(x[None])[0]
    answer = asker.ask(x[None])
    value = answer.values[0] - network(x[None])[0]
    slopes = differences(asker, network, x, value, _AWAY) if bool(answer.usable.all()) else None
    return None if slopes is None else _Piece(x, value, slopes.gradient)


def _across(asker: Asker, network: OneHidden, start: Tensor, inverse: Tensor, unit: int) -> Across | None:
    """Crosses one unit's hyperplane where all others are far from switching; None where others do all the same."""
    wanted = -_AWAY * torch.ones_like(network.offsets)
    wanted[unit] = 0.0
    place, along = _place(network, start, inverse, wanted), network.normals[unit]
    t = _AWAY * torch.tensor([*(-share for share in _ACROSS[::-1]), *_ACROSS], dtype=torch.float64)
    if asker.room(len(t)) < len(t):
        return None
    x = asker.rounded(place + t[:, None] * along)
    answer = asker.ask(x)
    n, t = len(_ACROSS), (x - place) @ along
    noise = _STRAIGHT * asker.eps * (answer.size.max() + asker.steepest * x.square().mean(1).max().sqrt())
    lines = []
    for side in (slice(0, n), slice(n, 2 * n)):
        design = torch.stack([torch.ones(n, dtype=torch.float64), t[side]], dim=1)
        found = torch.linalg.lstsq(design, answer.values[side]).solution
        if bool((design @ found - answer.values[side]).norm() > noise) or not bool(answer.usable.all()):
            return None
        lines.append(found)
    value, adds = lines[1] - lines[0]
    size = adds.norm()
    if float(size) * _AWAY <= float(noise):
        return Across(place, adds, 0.0)
    return Across(place - (value @ adds) / size**2 * along, adds / size, float(size))
