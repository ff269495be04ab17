"""Probabilities softened by a temperature, written `tempering:4`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from leakmeter.defenses.base import Defense
from leakmeter.errors import UsageError


@dataclass(frozen=True)
class Tempering(Defense):
    """Shows p^(1/t), scaled to add up to one: labels stay, confidence goes."""

    name: ClassVar[str] = "tempering"
    undoable: ClassVar[bool] = False
    keeps_label: ClassVar[bool] = True
    t: float

    def __post_init__(self) -> None:
        if self.t < 1:
            raise UsageError(f"expected T of tempering:T to be at least 1, got {self.t}")

    def change(self, probs: Tensor, noise: torch.Generator) -> Tensor:  # noqa: ARG002  nothing here is random
        """The softened distribution."""
        softened = probs ** (1 / self.t)
        return softened / softened.sum(1, keepdim=True)
