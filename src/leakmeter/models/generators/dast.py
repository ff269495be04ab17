"""DaST's generator: one branch per class that turns noise into maps, and one shared network that draws with them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leakmeter.errors import UsageError
from leakmeter.models.generators.base import Generator, centre_crop, dcgan_init
from leakmeter.models.inputs import image_shape


class DastGenerator(Generator):
    """Images of the classes asked for.

    Where DaST trims its 32×32 maps with unpadded convolutions, the maps are cropped to the image's size first, which
    serves any size; the shared network's batch norms see the whole batch, not one class at a time.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        *,
        classes: int = 10,
        latent: int = 128,
        width: int = 64,
        low: float | Tensor = 0.0,
        high: float | Tensor = 1.0,
    ) -> None:
        super().__init__(latent, low, high)
        channels, *self.sides = image_shape(shape, "dast")
        doublings = (max(self.sides) - 1).bit_length()
        self.branches = nn.ModuleList(_branch(latent, 2 * width, doublings) for _ in range(classes))
        filters = [factor * width for factor in (2, 4, 8, 4, 2, 1)]
        layers: list[nn.Module] = []
        for before, after in zip(filters, [*filters[1:], channels], strict=True):
            layers += [nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.LeakyReLU(0.2)]
        self.shared = nn.Sequential(*layers, nn.Conv2d(channels, channels, 3, padding=1, bias=False))
        self.shared.apply(dcgan_init)

    def forward(self, z: Tensor, labels: Tensor) -> Tensor:
        """Noise `[N, latent]` and the class wanted of each row to images before the sigmoid."""
        counts = labels.bincount(minlength=len(self.branches)).tolist()
        self._check(counts)
        by_class = labels.argsort(stable=True)
        rows = torch.split(z[by_class, :, None, None], counts)
        maps = [branch(part) for branch, part in zip(self.branches, rows, strict=True) if len(part)]
        image: Tensor = self.shared(centre_crop(torch.cat(maps), *self.sides))
        return image[by_class.argsort()]

    def squash(self, image: Tensor) -> Tensor:
        """DaST's sigmoid."""
        return torch.sigmoid(image)

    def _check(self, counts: list[int]) -> None:
        if len(counts) != len(self.branches):
            raise UsageError(f"expected labels below {len(self.branches)}, got {len(counts) - 1}")
        if self.training and 1 in counts:
            raise UsageError(f"training needs 2 images or more of each class asked for, got 1 of {counts.index(1)}")


def _branch(latent: int, filters: int, doublings: int) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Conv2d(latent, filters, 3, padding=1, bias=False)]
    for _ in range(doublings):
        layers += [nn.BatchNorm2d(filters), nn.LeakyReLU(0.2)]
        layers.append(nn.ConvTranspose2d(filters, filters, 4, stride=2, padding=1, bias=False))
    return nn.Sequential(*layers, nn.BatchNorm2d(filters), nn.LeakyReLU(0.2))
