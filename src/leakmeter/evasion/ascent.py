"""The climb that BIM, MI-FGSM and PGD share: steps along a direction, each projected into ball and box."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from leakmeter.evasion.access import WhiteBox
from leakmeter.evasion.ball import Ball, column
from leakmeter.evasion.goal import Goal, Loss, margin
from leakmeter.progress import Task

FLAT = "the gradient is zero there: the model is saturated, or hides its gradient"


@dataclass(frozen=True)
class AscentPhase:
    """A part of a climb: one loss, and the length of each step."""

    loss: Loss
    lengths: Sequence[float]


@dataclass(frozen=True, eq=False)
class Climb:
    """Where a climb ended."""

    best: Tensor
    """Of every point it came by, the one with the widest margin."""
    height: Tensor
    """The margin there; above 0 the example is broken."""
    flat: Tensor
    """Examples that found no gradient at the start of the last phase they began."""


def climb(
    access: WhiteBox,
    ball: Ball,
    goal: Goal,
    start: Tensor,
    phases: Sequence[AscentPhase],
    task: Task,
    *,
    momentum: float = 0.0,
    early_stop: bool = False,
) -> Climb:
    """Climbs phase by phase, each from the best point so far; with `early_stop`, each example until it is broken.

    Rows never mix, so an example ends where it would end alone, up to rounding inside the model.
    """
    best, height = start.clone(), start.new_full((len(start),), -torch.inf)
    flat = torch.zeros_like(height, dtype=torch.bool)
    rows, velocity = torch.arange(len(start), device=start.device), torch.zeros_like(start)
    for phase in phases:
        x = best[rows]
        for step, length in enumerate(phase.lengths):
            logits, gradient = access.gradient(x, goal, phase.loss)
            if step == 0:
                flat[rows] = is_flat(gradient)
            _keep_best(best, height, rows, x, margin(logits, goal))
            if early_stop and not bool((going := height[rows] <= 0).all()):
                rows, x, velocity, gradient = rows[going], x[going], velocity[going], gradient[going]
                ball, goal = ball.rows(going), goal.rows(going)
                if len(rows) == 0:
                    return Climb(best, height, flat)
            if momentum:
                velocity = gradient = torch.add(_unit_mean(gradient), velocity, alpha=momentum)
            x = ball.project(torch.add(x, ball.steepest(gradient, x), alpha=length))
            task.advance()
        _keep_best(best, height, rows, x, margin(access.logits(x), goal))
    return Climb(best, height, flat)


def is_flat(gradient: Tensor) -> Tensor:
    """Which rows are zero."""
    return (gradient == 0).flatten(1).all(1)


def _keep_best(best: Tensor, height: Tensor, rows: Tensor, x: Tensor, margins: Tensor) -> None:
    higher = margins > height[rows]
    best[rows[higher]], height[rows[higher]] = x[higher], margins[higher]


def _unit_mean(gradient: Tensor) -> Tensor:
    """Scaled to a mean absolute value of 1, so that gradients of different steps weigh the same in a momentum."""
    mean = gradient.abs().flatten(1).mean(1).clamp_min(torch.finfo(gradient.dtype).tiny)
    return gradient / column(mean, gradient)
