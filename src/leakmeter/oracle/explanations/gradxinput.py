"""Gradient times input: what a linear model would say each feature adds (Shrikumar, Greenside and Kundaje 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from leakmeter.oracle.explanations.base import Explanation, Scores
from leakmeter.victims.victim import Responder


@dataclass(frozen=True)
class GradientTimesInput(Explanation):
    """The derivative of each score by each feature, times the feature."""

    name: ClassVar[str] = "gradxinput"
    column: ClassVar[str] = "attributions"
    softmax_known: ClassVar[bool] = True

    def work(self, victim: Responder) -> int:  # noqa: ARG002
        """One gradient."""
        return 1

    def explain(self, x: Tensor, scores: Scores) -> Tensor:
        """The products, [n, shown, *input_shape]."""
        return scores.gradients(x) * x[:, None]
