"""The networks of Li et al., "Certified adversarial robustness with additive noise" (STN), section 5."""

from __future__ import annotations

from torch import nn

from leakmeter.models.shapes import image_shape


def stn_mnist(shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """Two convolutions of 64 filters of 5×5 without pooling, then 128 units, with the released net's dropout."""
    channels, height, width = image_shape(shape, "stn-mnist", least=9)
    return nn.Sequential(
        nn.Conv2d(channels, 64, 5),
        nn.ReLU(),
        nn.Conv2d(64, 64, 5),
        nn.ReLU(),
        nn.Dropout(0.25),
        nn.Flatten(),
        nn.Linear(64 * (height - 8) * (width - 8), 128),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(128, classes),
    )


def stn_cifar(shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """Seven convolutions with ELU, overlapping max-pools and dropout; the last one is averaged into logits.

    The sizes are the released network's; its L2 penalty of 1e-4 belongs to the training recipe.
    """
    channels, _, _ = image_shape(shape, "stn-cifar")
    return nn.Sequential(
        nn.Conv2d(channels, 96, 5, padding=2),
        nn.ELU(),
        nn.Conv2d(96, 96, 1),
        nn.ELU(),
        nn.MaxPool2d(3, stride=2, padding=1),
        nn.Dropout(0.5),
        nn.Conv2d(96, 192, 5, padding=2),
        nn.ELU(),
        nn.Conv2d(192, 192, 1),
        nn.ELU(),
        nn.MaxPool2d(3, stride=2, padding=1),
        nn.Dropout(0.5),
        nn.Conv2d(192, 256, 3, padding=1),
        nn.ELU(),
        nn.Conv2d(256, 256, 1),
        nn.ELU(),
        nn.Conv2d(256, classes, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )
