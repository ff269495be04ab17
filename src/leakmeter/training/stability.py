"""Stability training with noise: STN (Li et al., 2019), section 5.1."""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from leakmeter.training.loop import Batch
from leakmeter.training.technique import Technique, gaussian


class Stability(Technique):
    """Cross-entropy at x, plus γ times the cross-entropy between the softmax at x and at x + noise.

    The softmax at x is a target but no constant: as the paper writes the loss, its gradient counts as well. The paper
    gives no γ; 2 is that of the published re-run by Jeong and Shin (2020).
    """

    sigma: float = Field(default=0.5, gt=0)
    gamma: float = Field(default=2.0, ge=0)

    def __call__(self, model: nn.Module, batch: Batch, generator: torch.Generator) -> Tensor:
        """The loss of one batch."""
        x, y = batch
        clean, noisy = model(x), model(gaussian(x, self.sigma, generator))
        return cross_entropy(clean, y) + self.gamma * cross_entropy(noisy, clean.softmax(1))
