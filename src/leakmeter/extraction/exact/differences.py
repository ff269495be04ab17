"""Gradients from values: one step along each feature, and one more to see that no step left the cell."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from leakmeter.extraction.exact.asking import DOUBLE, Asker, Pieces
from leakmeter.extraction.exact.network import OneHidden
from leakmeter.seeds import stream

_TRIES = 6
_SHRINK, _LOOKS = 2.0, 12
"""A step whose cell is left is halved; so often before any feature is asked, by a few random directions."""
_FARTHER = 5.0
"""Looks go so many times as far as a step moves a unit mostly: the largest of d steps moves one as far."""
_MANY = 256
"""Features from which on that costs little beside a gradient; with fewer it is done in single precision only."""
_DIRECTIONS = 6, 16
"""So many of them at most, and one for so many features."""


@dataclass(frozen=True)
class Slopes:
    """A gradient [C, d] and how far rounding may have moved it (Frobenius)."""

    gradient: Tensor
    error: float


def differences(asker: Asker, network: OneHidden, x: Tensor, value: Tensor, width: float) -> Slopes | None:
    """The gradient at x of what the network lacks, where that is `value`; None where the budget ends.

    Steps begin at a share of the cell's width along a random line (which moves a unit sqrt(d) times as far as a single
    feature does) and shrink until a few random directions are straight, then until a step in a random direction
    agrees, as it does only if none of them left the cell. A box is never left. The last d questions of a budget are
    asked unchecked.
    """
    d = asker.d
    least = asker.eps**0.75 * float(1 + x.square().mean().sqrt())  # a cell may have no width at all
    careful = asker.eps < DOUBLE and d < _MANY
    step, shrink = width * max(1 / 8, d**0.5 / 80), _SHRINK**3
    if not careful:
        step, shrink = _straight_step(asker, network, x, value, width * max(1 / 4, d**0.5 / 4)), _SHRINK**2
    step = max(step, least)
    for attempt in range(_TRIES):
        room = asker.room(d + 1)
        if room < d:
            return None
        turn = torch.where(asker.rounded(x[None] + step)[0] >= x + step / 2, step, -step)
        shares = 0.5 + torch.rand(d, generator=stream(attempt, "check"), dtype=torch.float64)
        points = asker.rounded(torch.cat([x + torch.diag(turn), (x + turn * shares / d**0.5)[None]]))[:room]
        moved = points - x
        answer = asker.ask(points)
        change = answer.values - network(points) - value
        gradient = (change[:d] / moved[:d].diagonal()[:, None]).T
        slope = max(asker.steepest, float(gradient.norm()))
        noise = _noise(asker, answer, slope, points)
        # the error of the value at x is in every difference, so here it counts sqrt(d) times
        agrees = room == d or bool((change[d] - gradient @ moved[d]).norm() <= 4 * noise * d**0.5)
        if agrees and bool(answer.usable.all()):
            break
        step /= shrink
    return Slopes(gradient, d**0.5 * noise / step)


def _straight_step(asker: Asker, network: OneHidden, x: Tensor, value: Tensor, step: float) -> float:
    """The step, halved as long as what the network lacks bends on the way of a few random steps of that length."""
    d, generator = asker.d, stream(0, "straight")
    count = max(1, min(_DIRECTIONS[0], d // _DIRECTIONS[1]))
    for _ in range(_LOOKS):
        if asker.room(d + 2 * count) < d + 2 * count:
            break
        away = torch.randn(count, d, generator=generator, dtype=torch.float64) * _FARTHER * step / d**0.5
        ends = asker.rounded(x + away)
        points = asker.rounded(torch.cat([ends, (ends + x) / 2]))
        answer = asker.ask(points)
        change = answer.values - network(points) - value
        share = (points[count:] - x).norm(dim=1) / (ends - x).norm(dim=1).clamp(min=1e-300)
        bent = (change[count:] - share[:, None] * change[:count]).norm(dim=1)
        if bool((bent <= _noise(asker, answer, asker.steepest, points)).all()) and bool(answer.usable.all()):
            break
        step /= _SHRINK
    return step


def _noise(asker: Asker, answer: Pieces, slope: float, points: Tensor) -> float:
    """How far rounding may have moved the difference of two of these values."""
    return float(16 * asker.eps * (answer.size.max() + slope * points.square().mean(1).max().sqrt()))
