"""CoDFe's MNIST networks (section 4.1): a target of four convolutions, a substitute of three.

The paper gives no sizes and refers to DaST; the filters are those of DaST's networks: 20 and 50 of 5×5, then 50 of 3×3,
a max-pool after each, and 500 units.
"""

from __future__ import annotations

from torch import nn

from leakmeter.models.shapes import image_shape


def codfe_target(shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """Four convolutions."""
    return _convolutions(image_shape(shape, "codfe-target", least=28), classes, narrow=2)


def codfe_substitute(shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """Three convolutions."""
    return _convolutions(image_shape(shape, "codfe-substitute", least=20), classes, narrow=1)


def _convolutions(shape: tuple[int, int, int], classes: int, *, narrow: int) -> nn.Sequential:
    channels, *sides = shape
    layers: list[nn.Module] = [nn.Conv2d(channels, 20, 5), nn.MaxPool2d(2), nn.ReLU()]
    layers += [nn.Conv2d(20, 50, 5), nn.MaxPool2d(2), nn.ReLU()]
    for _ in range(narrow):
        layers += [nn.Conv2d(50, 50, 3, padding=1), nn.MaxPool2d(2), nn.ReLU()]
    rows, columns = (((side - 4) // 2 - 4) // 2 // 2**narrow for side in sides)
    layers += [nn.Flatten(), nn.Linear(50 * rows * columns, 500), nn.ReLU(), nn.Linear(500, classes)]
    return nn.Sequential(*layers)
