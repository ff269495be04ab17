"""What the training techniques share: frozen settings that are also the loss."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from leakmeter.training.loop import Batch


class Technique(BaseModel, ABC):
    """A loss for `training.loop.fit`; its fields are what `train` takes beside the recipe."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @abstractmethod
    def __call__(self, model: nn.Module, batch: Batch, generator: torch.Generator) -> Tensor:
        """The loss of one batch of inputs and labels; all that is drawn comes from the generator."""


def gaussian(x: Tensor, sigma: float, generator: torch.Generator) -> Tensor:
    """The inputs with fresh noise added to every number of them, not clipped."""
    return x + sigma * torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)
