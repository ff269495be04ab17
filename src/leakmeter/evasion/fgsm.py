"""FGSM: one step of the whole radius (Goodfellow et al. 2015, section 4)."""

from __future__ import annotations

from typing import Literal

import torch

from leakmeter.evasion.access import WhiteBox
from leakmeter.evasion.ascent import FLAT, is_flat
from leakmeter.evasion.attack import Candidates, GradientAttack, Problem
from leakmeter.evasion.goal import LOSSES


class Fgsm(GradientAttack):
    """The fast gradient sign method; in l2 the step follows the gradient itself."""

    loss: Literal["ce", "margin"] = "ce"

    def run(self, problem: Problem[WhiteBox]) -> Candidates:
        """One gradient, one step."""
        ball = problem.ball
        _, gradient = problem.access.gradient(problem.x, problem.goal, LOSSES[self.loss])
        examples = ball.project(torch.add(problem.x, ball.steepest(gradient, problem.x), alpha=ball.eps))
        return Candidates(examples, {int(row): FLAT for row in is_flat(gradient).nonzero()})
