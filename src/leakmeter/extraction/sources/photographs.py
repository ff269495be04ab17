"""Crops, turns, recolourings and mixtures of a handful of photographs: learning from one image is known to go far.

scikit-learn ships two photographs, so every attacker has them. A query is a crop of any size, turned and recoloured,
with up to three pieces of other crops pasted over it: pieces have outlines, as the things that a victim knows have.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from leakmeter.extraction.makers.canvas import chance, linear_basis, normal, uniform
from leakmeter.extraction.makers.leaves import leaf_mask
from leakmeter.extraction.sources import into_box
from leakmeter.victims.spec import VictimSpec

_SMALLEST = 0.5  # of the picture's side, in pixels of the photograph: finer crops are only blur
_TURN = math.pi / 6
_PIECES = 3
_CHUNK = 2**24  # numbers held at once


def photographs(n: int, spec: VictimSpec, generator: torch.Generator) -> Tensor:
    """Queries made of the two photographs that come with scikit-learn."""
    return mixtures(sample_pyramids(), n, spec, generator)


def mixtures(pyramids: Sequence[Sequence[Tensor]], n: int, spec: VictimSpec, generator: torch.Generator) -> Tensor:
    """Queries made of photographs, each given as `pyramid` makes it."""
    channels, height, width = spec.input_shape
    size = max(1, _CHUNK // (3 * height * width))
    made = [_mixture(pyramids, min(size, n - start), (3, height, width), generator) for start in range(0, n, size)]
    return into_box(_channels(torch.cat(made), channels), spec)


@cache
def sample_pyramids() -> tuple[tuple[Tensor, ...], ...]:
    """The two photographs of scikit-learn."""
    from sklearn.datasets import load_sample_images

    images = load_sample_images().images
    return tuple(pyramid(torch.tensor(image).permute(2, 0, 1).float() / 255) for image in images)


def pyramid(photograph: Tensor) -> tuple[Tensor, ...]:
    """A photograph [3, height, width] in [0, 1], and its halves down to 24 pixels, for large crops."""
    levels = [photograph]
    while min(levels[-1].shape[1:]) > 24:
        half = F.interpolate(levels[-1][None], scale_factor=0.5, mode="bilinear", antialias=True)[0]
        levels.append(half.clamp(0, 1))
    return tuple(levels)


def _mixture(
    pyramids: Sequence[Sequence[Tensor]], n: int, shape: tuple[int, int, int], generator: torch.Generator
) -> Tensor:
    picture, basis = _crops(pyramids, n, shape, generator), linear_basis(shape, generator.device)
    for _ in range(_PIECES):
        mask = leaf_mask(n, basis, generator).reshape(n, 1, *shape[1:]) * chance(generator, 0.5, n, 1, 1, 1)
        picture = torch.lerp(picture, _crops(pyramids, n, shape, generator), mask)
    return picture


def _crops(
    pyramids: Sequence[Sequence[Tensor]], n: int, shape: tuple[int, int, int], generator: torch.Generator
) -> Tensor:
    """Recoloured crops of all sizes, from half of the pictures' own pixels to the whole photograph."""
    side, which = max(shape[1:]), torch.randint(len(pyramids), (n,), generator=generator)
    longest = torch.tensor([min(levels[0].shape[1:]) for levels in pyramids]).float().log()[which]
    least = torch.full_like(longest, math.log(_SMALLEST * side)).minimum(longest)
    crop = torch.lerp(least, longest, uniform(generator, n)).exp()
    level = torch.log2((crop / side).clamp_min(1)).long()
    place = _Placement(n, crop, generator)
    pictures = torch.empty(n, *shape)
    for number, levels in enumerate(pyramids):
        for depth, image in enumerate(levels):
            rows = ((which == number) & (level.clamp_max(len(levels) - 1) == depth)).nonzero()[:, 0]
            if len(rows):
                grid = F.affine_grid(place.affine(rows, levels[0]), [len(rows), *shape], align_corners=False)
                whole = image[None].expand(len(rows), -1, -1, -1)
                pictures[rows] = F.grid_sample(whole, grid, padding_mode="reflection", align_corners=False)
    return _recoloured(pictures, generator)


class _Placement:
    """Where in its photograph each crop lies: centre, turn, stretch, and whether it is mirrored."""

    def __init__(self, n: int, crop: Tensor, generator: torch.Generator) -> None:
        self.crop = crop
        self.centre = uniform(generator, 2, n, low=-1)
        self.angle = uniform(generator, n, low=-_TURN, high=_TURN)
        self.stretch = uniform(generator, n, low=-0.15, high=0.15).exp()
        self.mirror = chance(generator, 0.5, n) * 2 - 1

    def affine(self, rows: Tensor, photograph: Tensor) -> Tensor:
        """The maps from the crops' coordinates to the photograph's, [rows, 2, 3]; a crop lies inside if it fits."""
        height, width = photograph.shape[1:]
        across, down = self.crop[rows] * self.stretch[rows] / width, self.crop[rows] / self.stretch[rows] / height
        cos, sin, mirror = self.angle[rows].cos(), self.angle[rows].sin(), self.mirror[rows]
        x, y = (
            centre * (1 - extent).clamp_min(0)
            for centre, extent in zip(self.centre[:, rows], (across, down), strict=True)
        )
        return torch.stack([cos * across * mirror, -sin * across, x, sin * down * mirror, cos * down, y], -1).reshape(
            -1, 2, 3
        )


def _recoloured(x: Tensor, generator: torch.Generator) -> Tensor:
    """Each picture with its colours swapped (half of them), and its own saturation, contrast, tint and brightness."""
    n = len(x)
    swapped = x.gather(1, torch.rand(n, 3, generator=generator).argsort(1)[:, :, None, None].expand_as(x))
    x = torch.where(chance(generator, 0.5, n, 1, 1, 1).bool(), swapped, x)
    grey = x.mean(1, keepdim=True)
    x = torch.lerp(grey, x, uniform(generator, n, 1, 1, 1, high=1.5))
    middle = x.mean((2, 3), keepdim=True)
    x = torch.lerp(middle, x, (normal(generator, n, 1, 1, 1) * 0.3).exp())
    return (x * (normal(generator, n, 3, 1, 1) * 0.15).exp() + normal(generator, n, 1, 1, 1) * 0.12).clamp(0, 1)


def _channels(pictures: Tensor, channels: int) -> Tensor:
    """Colour pictures with as many channels as the victim takes: their mean for one, repeated for more than three."""
    if channels == 1:
        return pictures.mean(1, keepdim=True)
    return pictures[:, torch.arange(channels) % 3]
