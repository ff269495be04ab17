"""Training on noisy inputs (Lecuyer et al., 2019; Cohen et al., 2019)."""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from leakmeter.training.loop import Batch
from leakmeter.training.technique import Technique, gaussian


class Gaussian(Technique):
    """Cross-entropy at x + noise, new noise for every batch."""

    sigma: float = Field(default=0.5, gt=0)

    def __call__(self, model: nn.Module, batch: Batch, generator: torch.Generator) -> Tensor:
        """The loss of one batch."""
        x, y = batch
        return cross_entropy(model(gaussian(x, self.sigma, generator)), y)
