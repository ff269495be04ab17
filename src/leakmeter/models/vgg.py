"""VGG11 (Simonyan & Zisserman, 2014) in the form used for CIFAR: batch normalisation and a single dense layer."""

from __future__ import annotations

from torch import nn

from leakmeter.models.shapes import image_shape


def vgg11(shape: tuple[int, ...], classes: int, width: int = 64) -> nn.Sequential:
    """Eight 3×3 convolutions in five stages; the pools round up, so that images under 32×32 pass too."""
    channels, _, _ = image_shape(shape, "vgg11")
    layers: list[nn.Module] = []
    for stage in ([1], [2], [4, 4], [8, 8], [8, 8]):
        for factor in stage:
            layers += [nn.Conv2d(channels, factor * width, 3, padding=1), nn.BatchNorm2d(factor * width), nn.ReLU()]
            channels = factor * width
        layers.append(nn.MaxPool2d(2, ceil_mode=True))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))
