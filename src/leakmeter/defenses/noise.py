"""Gaussian noise on the probabilities that never changes the label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from leakmeter.defenses.base import Defense, softened, with_label
from leakmeter.errors import UsageError
from leakmeter.oracle.answer import Answer


@dataclass(frozen=True)
class Noise(Defense):
    """Adds N(0, sigma²) to every probability, goes to the nearest distribution, and gives the label its place back.

    Each answer has noise of its own, also to a repeated question: the mean of r answers carries about 1/√r of it, and
    costs r queries.
    """

    name: ClassVar[str] = "noise"
    keeps_label: ClassVar[bool] = True
    sigma: float

    def __post_init__(self) -> None:
        if self.sigma <= 0:
            raise UsageError(f"expected SIGMA of {self.name}:SIGMA to be positive, got {self.sigma:g}")

    def change(self, probs: Tensor, noise: torch.Generator) -> Tensor:
        """The noisy distribution."""
        shift = torch.randn(probs.shape, generator=noise, dtype=probs.dtype).to(probs.device)
        return with_label(nearest_distribution(probs + self.sigma * shift), probs.argmax(1, keepdim=True))

    def undo(self, answer: Answer) -> Answer:
        """All a single answer allows: values far below sigma are noise, and no zero is believed."""
        return softened(answer, self.sigma / 2)


def nearest_distribution(values: Tensor) -> Tensor:
    """The Euclidean projection of each row onto the probability simplex (Held, Wolfe and Crowder 1974)."""
    ordered = values.sort(1, descending=True).values
    excess = (ordered.cumsum(1) - 1) / torch.arange(1, values.shape[1] + 1).to(values)
    support = (ordered > excess).sum(1, keepdim=True)
    return (values - excess.gather(1, support - 1)).clamp_min(0)
