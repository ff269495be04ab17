"""Inputs as a network likes them: the box, or the spread of the queries where it is open, becomes about [-1, 1].

Pictures that are mostly background, such as letters on black, begin at 0 there: what is not drawn then says nothing,
as to most networks that learned such pictures.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from leakmeter.victims.spec import VictimSpec


class Scaled(nn.Module):
    """`(x - middle) / reach`: the first layer of a substitute, so that it takes raw inputs."""

    middle: Tensor
    reach: Tensor

    def __init__(self, middle: Tensor, reach: Tensor) -> None:
        super().__init__()
        self.register_buffer("middle", middle.clone())
        self.register_buffer("reach", reach.clone())

    def forward(self, x: Tensor) -> Tensor:
        """The scaled inputs, in the type of the buffers; a missing value counts as the middle."""
        scaled = (x.to(self.middle) - self.middle) / self.reach
        return torch.where(scaled.isnan(), torch.zeros_like(scaled), scaled)


def scaled(spec: VictimSpec, x: Tensor) -> Scaled:
    """By the victim's box; where it is open, by the mean and the spread of the queries `x`, feature by feature."""
    if spec.low is not None and spec.high is not None:
        low, high = spec.low.float(), spec.high.float()
        width = (high - low).clamp_min(1e-12)
        some = x[:: max(1, len(x) // _SOME)].float()
        at = _background((some - low) / width) if x.dim() == 4 else 0.5
        return Scaled(low + at * width, width * max(at, 1 - at))
    spread, mean = torch.std_mean(x.float(), dim=0, unbiased=False)
    return Scaled(mean, torch.where(spread > 0, spread, torch.ones_like(spread)))


def _background(x: Tensor) -> float:
    """Where in the box, which is [0, 1] here, most of the pictures lies: at one of its ends, or in the middle."""
    low, high = (float((side < _NEAR).float().mean()) for side in (x, 1 - x))
    if max(low, high) < max(_MUCH, 2 * min(low, high)):
        return 0.5
    return 0.0 if low > high else 1.0


def unequal(spec: VictimSpec, network: nn.Module) -> bool:
    """Whether features have ranges of their own, and the network a first layer that can take these in (`fold`)."""
    first = next((part for part in network.modules() if next(part.parameters(recurse=False), None) is not None), None)
    dense = isinstance(first, nn.Linear) and first.bias is not None and first.in_features == spec.features
    return dense and len(spec.input_shape) == 1 and spec.width is not None and spec.width.dim() > 0


@contextmanager
def by_feature(spec: VictimSpec, x: Tensor, student: nn.Module, device: torch.device) -> Iterator[nn.Module]:
    """What to train: the student, behind scaled inputs where features have their own ranges, folded in afterwards."""
    if not unequal(spec, student):
        yield student
        return
    scale = scaled(spec, x)
    yield nn.Sequential(scale.to(device), student)
    fold(scale, student)


def fold(scale: Scaled, network: nn.Module) -> None:
    """Changes the network's first layer, which must be dense, so that it does what `scale` did before it (in place)."""
    first = next(part for part in network.modules() if isinstance(part, nn.Linear))
    features = first.in_features
    with torch.no_grad():
        middle, reach = (side.to(first.weight).expand(features) for side in (scale.middle, scale.reach))
        first.weight /= reach
        first.bias.sub_(first.weight @ middle)


_SOME = 500  # pictures to look at
_NEAR, _MUCH = 0.05, 0.3  # of the box so near an end; that much of all pictures
