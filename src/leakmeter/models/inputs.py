"""What networks do with raw inputs: check their shape, normalise them as a first layer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from leakmeter.errors import UsageError


def image_shape(shape: tuple[int, ...], name: str, *, least: int = 1) -> tuple[int, int, int]:
    """`shape` as (channels, height, width); `name` is what needs images of at least `least` pixels a side."""
    if len(shape) != 3 or min(shape) < 1:
        raise UsageError(f"'{name}' works on images: expected a shape (channels, height, width), got {shape}")
    channels, height, width = shape
    if min(height, width) < least:
        raise UsageError(
            f"'{name}' needs images of at least {least}x{least} pixels, got {height}x{width}; "
            "enlarge the images or choose mlp"
        )
    return channels, height, width


class Normalize(nn.Module):
    """`(x - mean) / std` per channel (or feature): `nn.Sequential(Normalize(mean, std), network)`."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        if len(mean) != len(std) or min(std, default=0.0) <= 0:
            raise UsageError(f"expected as many means as positive deviations, got mean {mean} and std {std}")
        self.register_buffer("mean", torch.tensor(mean))
        self.register_buffer("std", torch.tensor(std))

    def forward(self, x: Tensor) -> Tensor:
        """Broadcasts over everything after the channel dimension."""
        ones = (1,) * (x.dim() - 2)
        return (x - self.mean.view(-1, *ones)) / self.std.view(-1, *ones)
