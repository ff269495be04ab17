"""The convolutional network of Milli et al. section 4."""

from __future__ import annotations

from torch import nn

from leakmeter.models.shapes import image_shape


def milli_conv(shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """Two convolutions, each followed by a max-pool, then two dense layers.

    The paper gives no sizes; 32 and 64 filters of 5×5 and 128 units are ours.
    """
    channels, height, width = image_shape(shape, "milli-conv", least=4)
    return nn.Sequential(
        nn.Conv2d(channels, 32, 5, padding=2),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(32, 64, 5, padding=2),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64 * (height // 4) * (width // 4), 128),
        nn.ReLU(),
        nn.Linear(128, classes),
    )
