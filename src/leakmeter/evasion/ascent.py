"""The climb that BIM, MI-FGSM and PGD share: steps along a direction, each projected into ball and box."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from leakmeter.evasion.access import WhiteBox
from leakmeter.evasion.ball import Ball, column
from leakmeter.evasion.goal import Goal, Loss, margin

FLAT = "the gradient is zero at the start: the model is saturated there, or hides its gradient"


@dataclass(frozen=True, eq=False)
class Climb:
    """Where a climb ended."""

    best: Tensor
    """Of every iterate, the last one included, the one with the widest margin."""
    height: Tensor
    """The margin there; above 0 the example is broken."""
    flat: Tensor
    """Examples whose gradient was zero at the start."""


def climb(
    access: WhiteBox,
    ball: Ball,
    goal: Goal,
    start: Tensor,
    *,
    loss: Loss,
    steps: int,
    length: Callable[[int], float],
    momentum: float = 0.0,
    early_stop: bool = False,
    on_step: Callable[[], None] = lambda: None,
) -> Climb:
    """Climbs the loss from `start`; step `i` is `length(i)` long. With `early_stop` broken examples stop climbing.

    Rows never mix, so an example ends where it would end alone, up to rounding inside the model.
    """
    best, height = start.clone(), start.new_full((len(start),), -torch.inf)
    rows, x, velocity = torch.arange(len(start), device=start.device), start, torch.zeros_like(start)
    flat = torch.zeros_like(height, dtype=torch.bool)
    for step in range(steps):
        logits, gradient = access.gradient(x, goal, loss)
        if step == 0:
            flat = gradient.flatten(1).abs().amax(1) == 0
        _keep_best(best, height, rows, x, margin(logits, goal))
        if early_stop and bool((going := height[rows] <= 0).logical_not().any()):
            rows, x, velocity, gradient = rows[going], x[going], velocity[going], gradient[going]
            ball, goal = ball.rows(going), goal.rows(going)
            if len(rows) == 0:
                break
        if momentum:
            velocity = gradient = torch.add(_unit_l1(gradient), velocity, alpha=momentum)
        x = ball.project(torch.add(x, ball.steepest(gradient, x), alpha=length(step)))
        on_step()
    if len(rows) > 0:
        _keep_best(best, height, rows, x, margin(access.logits(x), goal))
    return Climb(best, height, flat)


def _keep_best(best: Tensor, height: Tensor, rows: Tensor, x: Tensor, margins: Tensor) -> None:
    higher = margins > height[rows]
    best[rows[higher]], height[rows[higher]] = x[higher], margins[higher]


def _unit_l1(gradient: Tensor) -> Tensor:
    """Scaled to mean absolute value 1, so that gradients of different steps weigh the same in a momentum."""
    mean = gradient.abs().flatten(1).mean(1).clamp_min(torch.finfo(gradient.dtype).tiny)
    return gradient / column(mean, gradient)
