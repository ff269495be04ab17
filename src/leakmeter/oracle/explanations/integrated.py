"""Integrated gradients: the gradient averaged from a baseline to the input (Sundararajan, Taly and Yan 2017)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from leakmeter.errors import UsageError
from leakmeter.oracle.explanations.base import Explanation, Scores
from leakmeter.oracle.explanations.baseline import baseline
from leakmeter.victims.victim import Responder

_FEW = 8


@dataclass(frozen=True)
class IntegratedGradients(Explanation):
    """The midpoint rule with `steps` gradients between the baseline and the input, times their difference.

    The baseline is `level` in every feature; without one it is zero, or what the box has nearest to it.
    """

    name: ClassVar[str] = "integrated"
    column: ClassVar[str] = "attributions"
    steps: int = 20
    level: float | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.steps <= 10**6:
            raise UsageError(f"expected integrated:STEPS,LEVEL with a step or more, got '{self}'")

    def check(self, victim: Responder) -> None:
        """The baseline must be an input."""
        super().check(victim)
        baseline(victim.spec, self.level)

    def work(self, victim: Responder) -> int:  # noqa: ARG002
        """A gradient for each step."""
        return self.steps

    def explain(self, x: Tensor, scores: Scores) -> Tensor:
        """What each feature adds, [n, shown, *input_shape]."""
        start = baseline(scores.spec, self.level).to(x)
        total = torch.zeros((), dtype=x.dtype, device=x.device)
        for step in range(self.steps):
            total = total + scores.gradients(start + (x - start) * ((step + 0.5) / self.steps))
        return total / self.steps * (x - start)[:, None]

    def soft(self, x: Tensor, scores: Scores) -> Tensor:
        """With few steps: the integral is the same, and a thief computes it a thousand times."""
        return replace(self, steps=min(self.steps, _FEW)).explain(x, scores)
