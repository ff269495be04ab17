"""PGD: climbs from random starts inside the ball (Madry et al. 2018, section 2.1)."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from leakmeter.evasion.access import WhiteBox
from leakmeter.evasion.ascent import FLAT, AscentPhase, climb
from leakmeter.evasion.attack import Candidates, GradientAttack, Problem
from leakmeter.evasion.goal import LOSSES
from leakmeter.seeds import stream


class Pgd(GradientAttack):
    """Projected gradient ascent that keeps the best point of all restarts.

    By default a restart climbs two losses in turn, each time from the best point so far: cross-entropy finds its way
    from afar, the margin finishes what is nearly broken. Steps shrink, so that every climb settles.
    """

    steps: int = Field(default=40, ge=1)
    """Gradients a restart."""
    restarts: int = Field(default=1, ge=1)
    random_start: bool = True
    loss: Literal["ce", "margin", "both"] = "both"
    reach: float = Field(default=2.5, gt=0)
    """The length of all steps of a climb together, in units of eps: enough to cross the ball and to come back."""
    early_stop: bool = True
    """Leave an example as soon as it is broken. Turn off for examples that should also break other models."""

    def run(self, problem: Problem[WhiteBox]) -> Candidates:
        """One restart after the other, each with the examples not broken so far."""
        best = problem.x.clone()
        height = best.new_full((len(best),), -torch.inf)
        if self.early_stop:
            height[problem.goal.reached(problem.access.labels(problem.x))] = torch.inf
        flat: set[int] = set()
        with problem.progress.task("climbing", self.restarts * self.steps) as task:
            for restart in range(self.restarts):
                rows = (height <= (0 if self.early_stop else torch.inf)).nonzero()[:, 0]
                if len(rows) == 0:
                    break
                ball, goal = problem.ball.rows(rows), problem.goal.rows(rows)
                start, phases = self._start(problem, restart)[rows], self._phases(problem.ball.eps)
                end = climb(problem.access, ball, goal, start, phases, task, early_stop=self.early_stop)
                higher = end.height > height[rows]
                best[rows[higher]], height[rows[higher]] = end.best[higher], end.height[higher]
                flat.update(rows[end.flat].tolist())
        return Candidates(best, dict.fromkeys(flat, FLAT))

    def _start(self, problem: Problem[WhiteBox], restart: int) -> Tensor:
        """Drawn for all examples at once, so that it does not matter which of them are left."""
        if not self.random_start:
            return problem.x
        return problem.ball.sample(stream(problem.seed, "pgd", restart, device=problem.x.device))

    def _phases(self, eps: float) -> list[AscentPhase]:
        """Climbs whose steps fall linearly to nothing and together are `reach` radii long."""
        losses = ["ce", "margin", "ce", "margin"] if self.loss == "both" else [self.loss]
        ends = [round(self.steps * part / len(losses)) for part in range(len(losses) + 1)]
        counts = [end - start for start, end in pairwise(ends)]
        return [
            AscentPhase(LOSSES[loss], [self.reach * eps * 2 * (n - step) / (n * (n + 1)) for step in range(n)])
            for loss, n in zip(losses, counts, strict=True)
            if n > 0
        ]
