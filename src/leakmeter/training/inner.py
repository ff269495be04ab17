"""The inner maximisation of adversarial training: a short climb inside the ball about each input."""

from __future__ import annotations

from collections.abc import Callable

import torch
from pydantic import Field
from torch import Tensor, nn

from leakmeter.box import Box
from leakmeter.compute import evaluating
from leakmeter.evasion.ball import BALLS, Ball, Norm
from leakmeter.training.technique import Technique


class Adversarial(Technique):
    """Settings of the climb: `steps` steps of 2.5·eps/steps, which reach the far side of the ball from any start."""

    norm: Norm = "linf"
    eps: float = Field(default=0.3, gt=0)
    steps: int = Field(default=10, ge=1)
    low: float | None = 0.0
    """The least value of an input; None: unbounded."""
    high: float | None = 1.0

    def ball(self, x: Tensor) -> Ball:
        """The inputs the adversary may choose."""
        return BALLS[self.norm].around(x, self.eps, Box.around(x, self.low, self.high))

    def climb(self, model: nn.Module, ball: Ball, start: Tensor, objective: Callable[[Tensor], Tensor]) -> Tensor:
        """Inputs at which the objective, a function of the logits, is large; the model meets them as when in use."""
        x, step = start, 2.5 * self.eps / self.steps
        with evaluating(model), torch.enable_grad():
            for _ in range(self.steps):
                x.requires_grad_()
                (gradient,) = torch.autograd.grad(objective(model(x)), x)
                x = x.detach()
                x = ball.project(x + step * ball.steepest(gradient, x))
        return x
