"""Training on clean inputs: the baseline."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from leakmeter.training.loop import Batch
from leakmeter.training.technique import Technique


class Plain(Technique):
    """Cross-entropy."""

    def __call__(self, model: nn.Module, batch: Batch, generator: torch.Generator) -> Tensor:  # noqa: ARG002
        """The loss of one batch."""
        x, y = batch
        return cross_entropy(model(x), y)
