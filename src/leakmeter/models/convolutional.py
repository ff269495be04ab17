"""The papers' plain convolutional networks, and a small one of ours."""

from __future__ import annotations

from torch import nn

from leakmeter.models.inputs import image_shape


def lenet(shape: tuple[int, ...], classes: int, width: int = 6) -> nn.Sequential:
    """6 and 16 filters of 5×5, then 120 and 84 units; with another `width` than 6, all in proportion.

    As in LeCun et al. (1998), images under 32 pixels are padded by 2, so 28×28 and 32×32 give the classic sizes. Under
    12 pixels the second convolution is padded too, without which nothing would be left of the image. ReLU comes after
    the pool: the same function and gradient to the last bit, on a quarter of the numbers.
    """
    channels, height, across = image_shape(shape, "lenet", least=4)
    side = min(height, across)
    pad1, pad2 = 2 if side < 32 else 0, 2 if side < 12 else 0
    rows, columns = (((size + 2 * pad1 - 4) // 2 + 2 * pad2 - 4) // 2 for size in (height, across))
    filters, first, second = (width * size // 6 for size in (16, 120, 84))
    return nn.Sequential(
        nn.Conv2d(channels, width, 5, padding=pad1),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(width, filters, 5, padding=pad2),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(filters * rows * columns, first),
        nn.ReLU(),
        nn.Linear(first, second),
        nn.ReLU(),
        nn.Linear(second, classes),
    )


def small_conv(shape: tuple[int, ...], classes: int, width: int = 32) -> nn.Sequential:
    """Four 3×3 convolutions of `width` to 4·`width` filters with batch normalisation, averaged into one dense layer.

    Pooling comes before the wide convolutions, which keeps almost all the arithmetic at 16×16 and below.
    """
    channels, _, _ = image_shape(shape, "small-conv", least=4)
    return nn.Sequential(
        *pooled(channels, width),
        *pooled(width, 2 * width),
        *normalised(2 * width, 4 * width),
        *normalised(4 * width, 4 * width),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4 * width, classes),
    )


def normalised(channels: int, out: int) -> tuple[nn.Module, ...]:
    """A 3×3 convolution that keeps the size, batch normalisation and ReLU."""
    return nn.Conv2d(channels, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU()


def pooled(channels: int, out: int) -> tuple[nn.Module, ...]:
    """The same, and a pool. ReLU comes last: the same function and gradient, on a quarter of the numbers."""
    convolution, normal, rectified = normalised(channels, out)
    return convolution, normal, nn.MaxPool2d(2), rectified


def milli_conv(shape: tuple[int, ...], classes: int, width: int = 128) -> nn.Sequential:
    """Two convolutions, each followed by a max-pool, then two dense layers, the first of `width` units.

    The paper gives no sizes; 32 and 64 filters of 5×5 and 128 units are ours.
    """
    channels, height, across = image_shape(shape, "milli-conv", least=4)
    return nn.Sequential(
        nn.Conv2d(channels, 32, 5, padding=2),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(32, 64, 5, padding=2),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64 * (height // 4) * (across // 4), width),
        nn.ReLU(),
        nn.Linear(width, classes),
    )


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
