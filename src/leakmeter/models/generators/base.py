"""What the generators share: noise in, an unsquashed image out, and the way from there into the box."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leakmeter.box import Box
from leakmeter.errors import UsageError


class Generator(nn.Module):
    """Noise of `latent` numbers to an image **before** squashing; `to_box` finishes it.

    The two steps are apart because DFME estimates gradients on the unsquashed image.
    """

    low: Tensor
    high: Tensor

    def __init__(self, latent: int, low: float | Tensor, high: float | Tensor) -> None:
        super().__init__()
        self.latent = latent
        self.register_buffer("low", torch.as_tensor(low, dtype=torch.get_default_dtype()))
        self.register_buffer("high", torch.as_tensor(high, dtype=torch.get_default_dtype()))
        if not (self.low < self.high).all() or not (self.high - self.low).isfinite().all():
            raise UsageError(f"a generator needs a finite box with low < high, got low {low} and high {high}")

    def noise(self, n: int, draws: torch.Generator) -> Tensor:
        """`n` standard normal rows for `forward`, drawn on the device of `draws`."""
        return torch.randn(n, self.latent, generator=draws, device=draws.device).to(self.low)

    def to_box(self, image: Tensor) -> Tensor:
        """The image inside `[low, high]`, whatever the rounding."""
        return Box(self.low, self.high).from_unit(self.squash(image))

    def squash(self, image: Tensor) -> Tensor:
        """The real line into [0, 1]."""
        return (torch.tanh(image) + 1) / 2


def centre_crop(x: Tensor, height: int, width: int) -> Tensor:
    """The middle `height` × `width` of each map."""
    top, left = (x.shape[-2] - height) // 2, (x.shape[-1] - width) // 2
    return x[..., top : top + height, left : left + width]


def dcgan_init(module: nn.Module) -> None:
    """DCGAN's start, for `module.apply`: small normal filters, batch norms near the identity."""
    if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
        nn.init.normal_(module.weight, 0.0, 0.02)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.normal_(module.weight, 1.0, 0.02)
