"""BIM: FGSM in small steps from the original (Kurakin et al. 2017, section 2.2)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from leakmeter.evasion.access import WhiteBox
from leakmeter.evasion.ascent import FLAT, AscentPhase, climb
from leakmeter.evasion.attack import Candidates, GradientAttack, Problem
from leakmeter.evasion.goal import LOSSES


class Bim(GradientAttack):
    """The basic iterative method. It goes on after an example is broken: its examples are meant to be strong."""

    steps: int = Field(default=10, ge=1)
    reach: float = Field(default=2.5, gt=0)
    """The length of all steps together, in units of eps."""
    momentum: float = Field(default=0.0, ge=0)
    """How much of the last direction a step keeps; 0 is BIM, 1 is MI-FGSM."""
    loss: Literal["ce", "margin"] = "ce"

    def run(self, problem: Problem[WhiteBox]) -> Candidates:
        """Climbs from the original."""
        phases = [AscentPhase(LOSSES[self.loss], [self.reach * problem.ball.eps / self.steps] * self.steps)]
        with problem.progress.task("climbing", self.steps) as task:
            end = climb(problem.access, problem.ball, problem.goal, problem.x, phases, task, momentum=self.momentum)
        return Candidates(end.best, {int(row): FLAT for row in end.flat.nonzero()})
