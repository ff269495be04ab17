"""CoDFe's generator: one light network for all classes."""

from __future__ import annotations

import math

from torch import Tensor, nn

from leakmeter.models.generators.base import Generator, centre_crop
from leakmeter.models.inputs import image_shape


class CodfeGenerator(Generator):
    """A dense layer and two transposed convolutions, cropped to the image.

    The paper says only that it is light and, unlike DaST's, has no part per class; the layers are ours.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        *,
        latent: int = 100,
        width: int = 64,
        low: float | Tensor = 0.0,
        high: float | Tensor = 1.0,
    ) -> None:
        super().__init__(latent, low, high)
        channels, *self.sides = image_shape(shape, "codfe")
        quarter = [math.ceil(side / 4) for side in self.sides]
        self.layers = nn.Sequential(
            nn.Linear(latent, 2 * width * math.prod(quarter)),
            nn.Unflatten(1, (2 * width, *quarter)),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
            nn.ConvTranspose2d(2 * width, width, 4, stride=2, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.ConvTranspose2d(width, channels, 4, stride=2, padding=1),
        )

    def forward(self, z: Tensor) -> Tensor:
        """Noise `[N, latent]` to images before tanh."""
        return centre_crop(self.layers(z), *self.sides)
