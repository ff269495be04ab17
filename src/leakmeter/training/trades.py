"""TRADES (Zhang et al., 2019): accuracy at x, and agreement between x and its worst neighbour."""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, kl_div

from leakmeter.training.inner import Adversarial
from leakmeter.training.loop import Batch
from leakmeter.training.technique import gaussian


class Trades(Adversarial):
    """Cross-entropy at x plus beta times the divergence from the softmax at x to that at its worst neighbour.

    Both softmaxes stay logarithms: a probability that underflows to 0 makes no NaN.
    """

    beta: float = Field(default=6.0, ge=0)

    def __call__(self, model: nn.Module, batch: Batch, generator: torch.Generator) -> Tensor:
        """The loss of one batch."""
        x, y = batch
        ball = self.ball(x)
        with torch.no_grad():
            target = model(x).log_softmax(1)
        # The divergence has no slope at x itself, so the climb starts a little beside it.
        start = ball.project(gaussian(x, 1e-3, generator))
        worst = self.climb(model, ball, start, lambda logits: _divergence(target, logits))
        clean = model(x)
        return cross_entropy(clean, y) + self.beta * _divergence(clean.log_softmax(1), model(worst))


def _divergence(target: Tensor, logits: Tensor) -> Tensor:
    return kl_div(logits.log_softmax(1), target, reduction="batchmean", log_target=True)
