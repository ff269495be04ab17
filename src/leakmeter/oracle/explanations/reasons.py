"""Reason codes: the few features that mattered most, and for or against; what credit law asks a lender to state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from leakmeter.errors import UsageError
from leakmeter.oracle.explanations.base import Explanation, Scores
from leakmeter.oracle.explanations.baseline import count, players, spread
from leakmeter.oracle.explanations.occlusion import falls
from leakmeter.oracle.explanations.protections import contradictions
from leakmeter.victims.victim import Responder


@dataclass(frozen=True)
class Reasons(Explanation):
    """The `k` parts whose occlusion changes a score most: 1 where they spoke for it, -1 where against, 0 elsewhere.

    A part is a column of a table, or one of seven squares a side of a picture.
    """

    name: ClassVar[str] = "reasons"
    column: ClassVar[str] = "attributions"
    needs_gradients: ClassVar[bool] = False
    linear: ClassVar[bool] = False
    k: int = 4

    def __post_init__(self) -> None:
        if self.k < 1:
            raise UsageError(f"expected reasons:K with a reason or more, got '{self}'")

    def check(self, victim: Responder) -> None:
        """There must be that many parts."""
        super().check(victim)
        most = count(victim.spec)
        if self.k > most:
            raise UsageError(f"expected reasons:K with K at most {most}, the features of an input, got {self.k}")

    def work(self, victim: Responder) -> int:
        """The input itself, and once without each part."""
        return 1 + count(victim.spec)

    def explain(self, x: Tensor, scores: Scores) -> Tensor:
        """The signs, [n, shown, *input_shape]."""
        lost = falls(x, scores)
        largest = lost.abs().topk(self.k, dim=2).indices
        signs = torch.zeros_like(lost).scatter_(2, largest, lost.sign().gather(2, largest))
        return spread(signs, players(scores.spec))

    def soft(self, x: Tensor, scores: Scores) -> Tensor:
        """The falls themselves."""
        return spread(falls(x, scores), players(scores.spec))

    def mismatch(self, soft: Tensor, shown: Tensor, power: Tensor) -> Tensor:  # noqa: ARG002
        """Signs that differ, and parts that matter more than those named."""
        return contradictions(soft, shown, ranked=True)
