"""Gradients from values: one step along each feature, and one more to see that no step left the cell."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from leakmeter.extraction.exact.asking import Asker
from leakmeter.extraction.exact.network import OneHidden
from leakmeter.seeds import stream

_TRIES = 6


@dataclass(frozen=True)
class Slopes:
    """A gradient [C, d] and how far rounding may have moved it (Frobenius)."""

    gradient: Tensor
    error: float


def differences(asker: Asker, network: OneHidden, x: Tensor, value: Tensor, width: float) -> Slopes | None:
    """The gradient at x of what the network lacks, where that is `value`; None where the budget ends.

    Steps begin at a share of the cell's width along a random line (which moves a unit sqrt(d) times as far as a single
    feature does) and shrink until a step in a random direction agrees, as it does only if none of them left the cell.
    A box is never left. The last d questions of a budget are asked unchecked.
    """
    d = asker.d
    least = asker.eps**0.75 * float(1 + x.square().mean().sqrt())  # a cell may have no width at all
    step = max(width * max(1 / 8, d**0.5 / 80), least)
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
        noise = float(16 * asker.eps * (answer.size.max() + slope * points.square().mean(1).max().sqrt()))
        # the error of the value at x is in every difference, so here it counts sqrt(d) times
        agrees = room == d or bool((change[d] - gradient @ moved[d]).norm() <= 4 * noise * d**0.5)
        if agrees and bool(answer.usable.all()):
            break
        step /= 8
    return Slopes(gradient, d**0.5 * noise / step)
