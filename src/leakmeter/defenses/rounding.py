"""Rounding: probabilities in steps of 10^-d that still add up to one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from leakmeter.defenses.base import Defense
from leakmeter.errors import UsageError
from leakmeter.oracle.answer import Answer

_MOST = 6  # decimals; float32 has hardly more


@dataclass(frozen=True)
class Rounding(Defense):
    """Largest-remainder rounding: every value is cut to d decimals, the missing steps go to those that lost most.

    Rounding each value by itself, as the view `probs:D` does, can leave nothing: ten classes at 0.04 all become 0.0.
    Here the sum stays one and no value moves by a whole step. The label keeps the highest value; where that ties with
    another class's, the first of them is named.
    """

    name: ClassVar[str] = "rounding"
    decimals: int

    def __post_init__(self) -> None:
        if not 0 <= self.decimals <= _MOST:
            raise UsageError(f"expected DECIMALS of rounding:DECIMALS from 0 to {_MOST}, got {self.decimals}")

    def change(self, probs: Tensor, noise: torch.Generator) -> Tensor:  # noqa: ARG002
        """The rounded distribution."""
        steps = 10**self.decimals
        exact = probs / probs.sum(1, keepdim=True) * steps
        whole = exact.floor()
        missing = (steps - whole.sum(1, keepdim=True)).round()
        # Remainders first; among equal ones the larger value, so that order is never turned round.
        rank = exact.argsort(dim=1, descending=True, stable=True)
        rank = rank.gather(1, (exact - whole).gather(1, rank).argsort(dim=1, descending=True, stable=True))
        place = torch.arange(probs.shape[1], device=probs.device).expand_as(rank)
        extra = torch.zeros_like(whole).scatter(1, rank, (place < missing).to(whole))
        rounded: Tensor = (whole + extra) / steps
        return rounded

    def undo(self, answer: Answer) -> Answer:
        """Takes each value for an interval, as under the view `probs:D`.

        That is half a step to each side; the few values the sum forced further lie up to a step away.
        """
        return replace(answer, view=replace(answer.view, decimals=self.decimals))
