"""Adversarial training (Madry et al., 2018)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from leakmeter.training.inner import Adversarial
from leakmeter.training.loop import Batch


class Madry(Adversarial):
    """Cross-entropy at the worst input that projected gradient ascent finds from a random start."""

    def __call__(self, model: nn.Module, batch: Batch, generator: torch.Generator) -> Tensor:
        """The loss of one batch."""
        x, y = batch
        ball = self.ball(x)
        worst = self.climb(model, ball, ball.sample(generator), lambda logits: cross_entropy(logits, y))
        return cross_entropy(model(worst), y)
