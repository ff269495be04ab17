"""PGD: climbs from random starts inside the ball (Madry et al. 2018, section 2.1)."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from leakmeter.evasion.access import WhiteBox
from leakmeter.evasion.ascent import FLAT, climb
from leakmeter.evasion.attack import Candidates, GradientAttack, Problem
from leakmeter.evasion.goal import LOSSES
from leakmeter.seeds import stream


class Pgd(GradientAttack):
    """Projected gradient ascent, keeping the best iterate of all restarts."""

    steps: int = Field(default=40, ge=1)
    restarts: int = Field(default=1, ge=1)
    random_start: bool = True
    reach: float = Field(default=2.5, gt=0)
    """The length of all steps together, in units of eps: enough to cross the ball and come back some way."""
    decay: bool = True
    """Whether steps shrink linearly to nothing, so that the climb settles; otherwise all are equally long."""
    loss: Literal["ce", "margin"] = "margin"
    momentum: float = Field(default=0.0, ge=0)
    early_stop: bool = True
    """Leave an example as soon as it is broken. Turn off for examples that should also break other models."""

    def run(self, problem: Problem[WhiteBox]) -> Candidates:
        """Climbs once a restart, each time with the examples not broken so far."""
        best = problem.x.clone()
        height = best.new_full((len(best),), -torch.inf)
        if self.early_stop:
            height[problem.goal.reached(problem.access.labels(problem.x))] = torch.inf
        flat: set[int] = set()
        with problem.progress.task("climbing", self.restarts * self.steps) as task:
            for restart in range(self.restarts):
                rows = (height <= 0).nonzero()[:, 0] if self.early_stop else torch.arange(len(best), device=best.device)
                if len(rows) == 0:
                    break
                end = climb(
                    problem.access,
                    problem.ball.rows(rows),
                    problem.goal.rows(rows),
                    self._start(problem, restart)[rows],
                    loss=LOSSES[self.loss],
                    steps=self.steps,
                    length=lambda step: self._length(step) * problem.ball.eps,
                    momentum=self.momentum,
                    early_stop=self.early_stop,
                    on_step=task.advance,
                )
                higher = end.height > height[rows]
                best[rows[higher]], height[rows[higher]] = end.best[higher], end.height[higher]
                flat.update(rows[end.flat].tolist())
        return Candidates(best, dict.fromkeys(flat, FLAT))

    def _start(self, problem: Problem[WhiteBox], restart: int) -> Tensor:
        """Drawn for all examples at once, so that it does not matter which of them are left."""
        if not self.random_start:
            return problem.x
        return problem.ball.sample(stream(problem.seed, "pgd", restart, device=problem.x.device))

    def _length(self, step: int) -> float:
        mean = self.reach / self.steps
        return mean * 2 * (self.steps - step) / (self.steps + 1) if self.decay else mean
