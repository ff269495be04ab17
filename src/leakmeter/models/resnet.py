"""ResNet-18 and -34 (He et al., 2016) in the CIFAR form, and one of nine layers that learns in minutes.

The first two have a 3×3 first convolution and no first pool; at the default width they are what DFME calls
ResNet-18-8x and ResNet-34-8x.
"""

from __future__ import annotations

import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from leakmeter.models.convolutional import normalised, pooled
from leakmeter.models.inputs import image_shape


class BasicBlock(nn.Module):
    """Two 3×3 convolutions beside a shortcut, which is projected where the shape changes."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            nn.Conv2d(channels, out, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(out),
            nn.ReLU(),
            nn.Conv2d(out, out, 3, padding=1, bias=False),
            nn.BatchNorm2d(out),
        )
        self.shortcut = nn.Sequential()
        if stride != 1 or channels != out:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Tensor:
        """The sum of both ways, rectified."""
        return F.relu(self.residual(x) + self.shortcut(x))


def resnet18(shape: tuple[int, ...], classes: int, width: int = 64) -> nn.Sequential:
    """Stages of 2, 2, 2, 2 blocks; `width` channels in the first."""
    return _resnet(image_shape(shape, "resnet18"), classes, (2, 2, 2, 2), width)


def resnet34(shape: tuple[int, ...], classes: int, width: int = 64) -> nn.Sequential:
    """Stages of 3, 4, 6, 3 blocks; `width` channels in the first."""
    return _resnet(image_shape(shape, "resnet34"), classes, (3, 4, 6, 3), width)


def resnet9(shape: tuple[int, ...], classes: int, width: int = 64) -> nn.Sequential:
    """Eight convolutions and a dense layer: Page's network for CIFAR-10 (2018), known to learn quickly."""
    channels, _, _ = image_shape(shape, "resnet9", least=8)
    return nn.Sequential(
        *normalised(channels, width),
        *pooled(width, 2 * width),
        _Added(2 * width),
        *pooled(2 * width, 4 * width),
        *pooled(4 * width, 8 * width),
        _Added(8 * width),
        nn.AdaptiveMaxPool2d(1),
        nn.Flatten(),
        nn.Linear(8 * width, classes),
    )


class _Added(nn.Module):
    """Two convolutions whose outcome is added to what they were given."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.residual = nn.Sequential(*normalised(channels, channels), *normalised(channels, channels))

    def forward(self, x: Tensor) -> Tensor:
        added: Tensor = x + self.residual(x)
        return added


def _resnet(shape: tuple[int, int, int], classes: int, blocks: tuple[int, ...], width: int) -> nn.Sequential:
    layers: list[nn.Module] = [
        nn.Conv2d(shape[0], width, 3, padding=1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
    ]
    channels = width
    for stage, count in enumerate(blocks):
        out = width * 2**stage
        for block in range(count):
            layers.append(BasicBlock(channels, out, stride=2 if stage > 0 and block == 0 else 1))
            channels = out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))
