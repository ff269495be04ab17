"""What students see of large pictures: averaged down to some forty pixels a side, which is also all that is kept.

Five thousand pictures of 3x224x224 take three gigabytes; what a student learns of them takes a hundred megabytes.
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor, nn
from torch.nn.functional import avg_pool2d

from leakmeter.box import Box
from leakmeter.victims.spec import VictimSpec

_LARGEST = 40  # pixels a side, at least: pictures are averaged down by whole numbers


def reduction(shape: tuple[int, ...]) -> int:
    """By how much pictures of this shape are averaged down before a student sees them; 1: not at all."""
    return max(1, min(shape[1:]) // _LARGEST) if len(shape) == 3 else 1


def reduced(x: Tensor) -> Tensor:
    """Inputs as students see them; what they see already stays as it is."""
    factor = reduction(tuple(x.shape[1:]))
    return x if factor == 1 else avg_pool2d(x, factor)


def reduced_spec(spec: VictimSpec) -> VictimSpec:
    """The victim as students see it."""
    factor = reduction(spec.input_shape)
    if factor == 1:
        return spec
    channels, height, width = spec.input_shape
    edges = (
        edge if edge is None or edge.dim() == 0 else reduced(edge.expand(1, *spec.input_shape))[0]
        for edge in (spec.low, spec.high)
    )
    return replace(spec, input_shape=(channels, height // factor, width // factor), box=Box(*edges))


def whole(student: nn.Module, spec: VictimSpec) -> nn.Module:
    """A student of reduced pictures as one of the victim's own."""
    factor = reduction(spec.input_shape)
    return student if factor == 1 else nn.Sequential(nn.AvgPool2d(factor), student)
