"""Carlini & Wagner's l2 attack: the nearest adversarial example by gradient descent (2017, sections V and VI.A).

It minimises |x' - x|^2 + c * max(confidence - margin(x'), 0) with Adam, and searches for each example's own c. The box
is kept by projection (their section V.B), which also works where a side of the box is open.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from leakmeter.evasion.access import WhiteBox
from leakmeter.evasion.ascent import FLAT, is_flat
from leakmeter.evasion.attack import Candidates, GradientAttack, Problem
from leakmeter.evasion.ball import Norm, column
from leakmeter.evasion.goal import Goal, margin

_CHECKS = 10  # looks a round at whether an example still improves
_PROGRESS = 0.9999  # an example that keeps this much of its loss between two looks has converged
_CLOSE = 1.2  # the search is over when c is known to this factor


class CarliniWagner(GradientAttack):
    """Untargeted or targeted, l2. Examples that have converged are dropped, and the rest goes on without them."""

    norms: ClassVar[tuple[Norm, ...]] = ("l2",)
    needs_eps: ClassVar[bool] = False

    rounds: int = Field(default=9, ge=1)
    """Values of c tried for an example, at most."""
    steps: int = Field(default=1000, ge=1)
    """Gradient steps a round, at most."""
    rate: float | None = Field(default=None, gt=0)
    """Adam's first step, in widths of the box; it shrinks to nothing within a round.

    By default 0.01, and more where fewer than 200 steps would not take a feature across the box.
    """
    c: float = Field(default=1.0, gt=0)
    """The first c, in squared widths; ten times as much after a failure, a tenth after a success, then in between."""
    confidence: float = Field(default=0.0, ge=0)
    """The margin, in logits, above which an example counts as broken."""

    def run(self, problem: Problem[WhiteBox]) -> Candidates:
        """Searches over c for all examples at once."""
        search = _Search(problem.x, self.c * float(torch.as_tensor(problem.ball.box.unit).square().mean()))
        with problem.progress.task("searching", self.rounds) as task:
            for _ in range(self.rounds):
                rows = search.open_rows()
                if len(rows) == 0:
                    break
                search.narrow(rows, self._descend(problem, search, rows))
                task.advance()
        return Candidates(search.best, search.reasons())

    def _descend(self, problem: Problem[WhiteBox], search: _Search, rows: Tensor) -> Tensor:
        """One round from the originals; says which of `rows` were broken on the way."""
        state = _Descent(rows, problem.x[rows], problem.goal.rows(rows), search.c[rows])
        box, broken = problem.ball.box, torch.zeros_like(search.flat)
        every = math.ceil(self.steps / _CHECKS)
        for step in range(self.steps):
            logits, uphill = problem.access.gradient(state.x, state.goal, self._hinge)
            margins = margin(logits, state.goal)
            offset = state.x - state.x0
            squared = offset.flatten(1).square().sum(1)
            won = margins > self.confidence
            broken[state.rows[won]] = True
            search.offer(state.rows, state.x, squared, margins, won)
            if step == 0:
                search.flat[rows] = is_flat(uphill)
            downhill = state.adam(2 * offset - column(state.c, offset) * uphill)
            state.x = box.clamp(state.x - self._rate(step) * box.unit * downhill)
            state.lowest = torch.minimum(state.lowest, squared + state.c * (self.confidence - margins).clamp_min(0))
            if step % every == every - 1:
                state.keep(state.lowest < _PROGRESS * state.before)
                state.before = state.lowest
                if len(state.rows) == 0:
                    break
        return broken[rows]

    def _hinge(self, logits: Tensor, goal: Goal) -> Tensor:
        return margin(logits, goal).clamp_max(self.confidence)

    def _rate(self, step: int) -> float:
        first = max(0.01, 2 / self.steps) if self.rate is None else self.rate
        return first * (1 - step / self.steps)


class _Search:
    """The best examples so far and, for each, the interval its c is searched in."""

    def __init__(self, x: Tensor, c: float) -> None:
        n = len(x)
        self.best, self.nearest = x.clone(), x.new_full((n,), torch.inf)
        self.c, self.low, self.high = x.new_full((n,), c), x.new_zeros(n), x.new_full((n,), torch.inf)
        self.widest, self.flat = x.new_full((n,), -torch.inf), torch.zeros(n, dtype=torch.bool, device=x.device)

    def open_rows(self) -> Tensor:
        """Examples whose search goes on: not broken from the start, and c not yet known well."""
        return ((self.nearest > 0) & (self.high > _CLOSE * self.low)).nonzero()[:, 0]

    def offer(self, rows: Tensor, x: Tensor, squared: Tensor, margins: Tensor, won: Tensor) -> None:
        """Keeps the nearest of the broken examples, and how near the others came."""
        self.widest[rows] = torch.maximum(self.widest[rows], margins)
        nearer = won & (squared < self.nearest[rows])
        self.best[rows[nearer]], self.nearest[rows[nearer]] = x[nearer], squared[nearer]

    def narrow(self, rows: Tensor, found: Tensor) -> None:
        """Moves one end of each interval to the c just tried, and chooses the next."""
        c = self.c[rows]
        low, high = torch.where(found, self.low[rows], c), torch.where(found, c, self.high[rows])
        self.low[rows], self.high[rows] = low, high
        between = torch.where(low == 0, high / 10, (low * high).sqrt())
        self.c[rows] = torch.where(high.isinf(), low * 10, between)

    def reasons(self) -> dict[int, str]:
        """Why nothing was found, where nothing was."""
        failed = self.nearest.isinf().nonzero()[:, 0].tolist()
        return {row: FLAT if self.flat[row] else self._failure(row) for row in failed}

    def _failure(self, row: int) -> str:
        margin_, c = self.widest[row].item(), self.low[row].item()
        return f"no example broken up to c = {c:g}, the widest margin was {margin_:.3g}; raise rounds or steps"


@dataclass(eq=False)
class _Descent:
    """Adam's state for the examples still descending in this round."""

    rows: Tensor
    x0: Tensor
    goal: Goal
    c: Tensor

    def __post_init__(self) -> None:
        self.x = self.x0.clone()
        self.mean, self.square, self.steps = torch.zeros_like(self.x), torch.zeros_like(self.x), 0
        self.lowest = self.before = torch.full_like(self.c, torch.inf)

    def adam(self, gradient: Tensor) -> Tensor:
        """The direction of Adam with its usual constants."""
        self.steps += 1
        self.mean.lerp_(gradient, 0.1)
        self.square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        scale = math.sqrt(1 - 0.999**self.steps)
        return self.mean / self.square.sqrt().add_(1e-8).mul_((1 - 0.9**self.steps) / scale)

    def keep(self, going: Tensor) -> None:
        """Drops the examples not marked."""
        if bool(going.all()):
            return
        for name in ("rows", "x0", "c", "x", "mean", "square", "lowest", "before"):
            setattr(self, name, getattr(self, name)[going])
        self.goal = self.goal.rows(going)
