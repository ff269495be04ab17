"""DFME's generator: a dense layer, two upsamplings and three convolutions, with tanh outside."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from leakmeter.models.generators.base import Generator, enlarged_conv
from leakmeter.models.inputs import image_shape


class DfmeGenerator(Generator):
    """Starts at a quarter of the image's side, rounded up, and upsamples to a half and to the whole."""

    def __init__(
        self,
        shape: tuple[int, ...],
        *,
        latent: int = 256,
        width: int = 64,
        low: float | Tensor = 0.0,
        high: float | Tensor = 1.0,
    ) -> None:
        super().__init__(latent, low, high)
        channels, *self.sides = image_shape(shape, "dfme")
        self.half_sides = [math.ceil(side / 2) for side in self.sides]
        quarter = [math.ceil(side / 4) for side in self.sides]
        self.start = nn.Sequential(
            nn.Linear(latent, 2 * width * math.prod(quarter)),
            nn.Unflatten(1, (2 * width, *quarter)),
            nn.BatchNorm2d(2 * width),
        )
        self.halved = nn.Conv2d(2 * width, 2 * width, 3, padding=1)
        self.middle = nn.Sequential(nn.BatchNorm2d(2 * width), nn.LeakyReLU(0.2, inplace=True))
        self.whole = nn.Conv2d(2 * width, width, 3, padding=1)
        self.end = nn.Sequential(
            nn.BatchNorm2d(width),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(width, channels, 3, padding=1),
            nn.BatchNorm2d(channels, affine=False),
        )

    def forward(self, z: Tensor) -> Tensor:
        """Noise `[N, latent]` to images before tanh."""
        # the dense layer gives plain rows; all that follows is much faster with the channels of a pixel side by side
        x = self.start(z).contiguous(memory_format=torch.channels_last)
        x = self.middle(enlarged_conv(self.halved, x, self.half_sides))
        image: Tensor = self.end(enlarged_conv(self.whole, x, self.sides))
        return image.contiguous()  # plain again: a victim or a student may reshape with `view`
