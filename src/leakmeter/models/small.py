"""A cheap network for CIFAR-sized images, for machines without a GPU."""

from __future__ import annotations

from torch import nn

from leakmeter.models.shapes import image_shape


def small_conv(shape: tuple[int, ...], classes: int, width: int = 32) -> nn.Sequential:
    """Four 3×3 convolutions of `width` to 4·`width` filters with batch normalisation, averaged into one dense layer.

    Pooling comes before the wide convolutions, which keeps almost all the arithmetic at 16×16 and below.
    """
    channels, _, _ = image_shape(shape, "small-conv", least=4)
    return nn.Sequential(
        *_block(channels, width),
        nn.MaxPool2d(2),
        *_block(width, 2 * width),
        nn.MaxPool2d(2),
        *_block(2 * width, 4 * width),
        *_block(4 * width, 4 * width),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4 * width, classes),
    )


def _block(channels: int, out: int) -> tuple[nn.Module, ...]:
    return nn.Conv2d(channels, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU()
