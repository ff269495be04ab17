"""How a network keeps its images in memory."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leakmeter.training.loop import evaluating


def prefer_channels_last(model: nn.Module, example: Tensor) -> None:
    """Puts the channels of a pixel side by side, which is faster, unless the model's code cannot do with it.

    A network that reshapes with `view` cannot; it keeps the plain layout and computes the same.
    """
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    try:
        with evaluating(model), torch.no_grad():
            model(example)
    except RuntimeError:
        model.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
