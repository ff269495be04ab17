"""LeNet-5 with ReLU and max-pooling."""

from __future__ import annotations

from torch import nn

from leakmeter.models.shapes import image_shape


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
