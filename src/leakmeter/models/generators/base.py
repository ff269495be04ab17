"""What the generators share: noise in, an unsquashed image out, the way from there into the box, and how maps grow."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from leakmeter.box import Box
from leakmeter.errors import UsageError


class Generator(nn.Module):
    """Noise of `latent` numbers to an image **before** squashing; `to_box` finishes it.

    The two steps are apart because DFME estimates gradients on the unsquashed image.
    """

    low: Tensor
    high: Tensor

    def __init__(self, latent: int, low: float | Tensor, high: float | Tensor) -> None:
        super().__init__()
        self.latent = latent
        self.register_buffer("low", torch.as_tensor(low, dtype=torch.get_default_dtype()))
        self.register_buffer("high", torch.as_tensor(high, dtype=torch.get_default_dtype()))
        if not (self.low < self.high).all() or not (self.high - self.low).isfinite().all():
            raise UsageError(f"a generator needs a finite box with low < high, got low {low} and high {high}")

    def noise(self, n: int, draws: torch.Generator) -> Tensor:
        """`n` standard normal rows for `forward`, drawn on the device of `draws`."""
        return torch.randn(n, self.latent, generator=draws, device=draws.device).to(self.low)

    def to_box(self, image: Tensor) -> Tensor:
        """The image inside `[low, high]`, whatever the rounding."""
        return Box(self.low, self.high).from_unit(self.squash(image))

    def squash(self, image: Tensor) -> Tensor:
        """The real line into [0, 1]."""
        return (torch.tanh(image) + 1) / 2


def centre_crop(x: Tensor, height: int, width: int) -> Tensor:
    """The middle `height` × `width` of each map."""
    top, left = (x.shape[-2] - height) // 2, (x.shape[-1] - width) // 2
    return x[..., top : top + height, left : left + width]


def dcgan_init(module: nn.Module) -> None:
    """DCGAN's start, for `module.apply`: small normal filters, batch norms near the identity."""
    if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
        nn.init.normal_(module.weight, 0.0, 0.02)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.normal_(module.weight, 1.0, 0.02)


def enlarged_conv(conv: nn.Conv2d, x: Tensor, sides: Sequence[int]) -> Tensor:
    """`conv` (3×3, padding 1) applied to `x` enlarged to `sides`.

    Doubling repeats every pixel, so three taps fall on two pixels: the same result is a transposed convolution of
    stride 2 whose 4×4 filter holds sums of the 3×3 one, with 4 products for each output pixel instead of 9.
    """
    if [2 * side for side in x.shape[-2:]] != list(sides):
        enlarged: Tensor = conv(F.interpolate(x, size=list(sides)))
        return enlarged
    sums = torch.tensor([[0, 0, 1], [0, 1, 1], [1, 1, 0], [1, 0, 0]], dtype=x.dtype, device=x.device)
    filters = (sums @ conv.weight @ sums.T).transpose(0, 1)
    return F.conv_transpose2d(x, filters, conv.bias, stride=2, padding=1)
