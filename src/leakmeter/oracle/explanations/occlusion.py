"""Occlusion: how far each score falls when a part of the input is taken away (Zeiler and Fergus 2014)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from leakmeter.errors import UsageError
from leakmeter.oracle.explanations.base import Explanation, Scores
from leakmeter.oracle.explanations.baseline import count, players, scores_of_parts, spread
from leakmeter.victims.victim import Responder


@dataclass(frozen=True)
class Occlusion(Explanation):
    """Squares of `size` pixels, side by side, set to zero (or what the box has nearest); of a table single columns."""

    name: ClassVar[str] = "occlusion"
    column: ClassVar[str] = "attributions"
    needs_gradients: ClassVar[bool] = False
    softmax_known: ClassVar[bool] = True
    size: int | None = None

    def __post_init__(self) -> None:
        if self.size is not None and self.size < 1:
            raise UsageError(f"expected occlusion:SIZE with a pixel or more, got '{self}'")

    def check(self, victim: Responder) -> None:
        """Squares need pictures, and must be no larger than these."""
        super().check(victim)
        shape = victim.spec.input_shape
        if self.size is not None and self.size > (min(shape[1:]) if len(shape) == 3 else 1):
            what = f"pictures of {shape[1]} by {shape[2]} pixels" if len(shape) == 3 else "inputs that are no pictures"
            most = min(shape[1:]) if len(shape) == 3 else 1
            raise UsageError(f"expected occlusion:SIZE with SIZE at most {most} for {what}, got {self.size}")

    def work(self, victim: Responder) -> int:
        """The input itself, and once without each part."""
        return 1 + count(victim.spec, self.size)

    def explain(self, x: Tensor, scores: Scores) -> Tensor:
        """The falls, [n, shown, *input_shape]: every feature of a part has the part's."""
        return spread(falls(x, scores, self.size), players(scores.spec, self.size))


def falls(x: Tensor, scores: Scores, size: int | None = None) -> Tensor:
    """How far each score falls without each part, [n, shown, parts]."""
    parts = count(scores.spec, size)
    kept = torch.cat([torch.ones(1, parts, dtype=torch.bool), ~torch.eye(parts, dtype=torch.bool)])
    told = scores_of_parts(x, kept, scores, size)
    return (told[:, :, :1] - told[:, :, 1:]).to(x)
