"""Integrated gradients: the gradient averaged from a baseline to the input (Sundararajan, Taly and Yan 2017)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from leakmeter.errors import UsageError
from leakmeter.oracle.explanations.base import Explanation, Scores
from leakmeter.oracle.explanations.baseline import baseline
from leakmeter.victims.spec import VictimSpec
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
        shares = (torch.arange(self.steps, dtype=x.dtype, device=x.device) + 0.5) / self.steps
        for some in torch.split(shares, max(1, scores.batch // len(x))):
            points = start + (x - start) * some.view(-1, 1, *[1] * (x.dim() - 1))
            slopes = scores.gradients(points.flatten(0, 1))
            total = total + slopes.reshape(len(some), len(x), *slopes.shape[1:]).sum(0)
        return total / self.steps * (x - start)[:, None]

    def fewer(self, spec: VictimSpec) -> Explanation:  # noqa: ARG002
        """Few steps: the integral is the same."""
        return replace(self, steps=min(self.steps, _FEW))
