"""The plain input gradient (Simonyan, Vedaldi and Zisserman 2013)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from leakmeter.oracle.explanations.base import Explanation, Scores
from leakmeter.victims.victim import Responder


@dataclass(frozen=True)
class Gradient(Explanation):
    """The derivative of each score by each feature."""

    name: ClassVar[str] = "gradient"
    softmax_known: ClassVar[bool] = True
    tells: ClassVar[tuple[str, ...]] = ("gradxinput",)

    def work(self, victim: Responder) -> int:  # noqa: ARG002
        """One gradient."""
        return 1

    def explain(self, x: Tensor, scores: Scores) -> Tensor:
        """The gradients, [n, shown, *input_shape]."""
        return scores.gradients(x)
