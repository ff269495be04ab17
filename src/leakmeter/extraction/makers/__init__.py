"""Pictures drawn by code: queries that need no data. Each maker: `(n, shape, generator) -> [n, *shape]` in [0, 1]."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from leakmeter.errors import UsageError
from leakmeter.extraction.makers.canvas import Shape
from leakmeter.registry import Registry

Maker = Callable[[int, Shape, torch.Generator], Tensor]

_HERE = "leakmeter.extraction.makers"
MAKERS: Registry[Maker] = Registry(
    "image maker",
    {name: f"{_HERE}.{name}:{name}" for name in ("strokes", "blobs", "polygons", "silhouettes", "leaves", "textures")},
)

_CHUNK = 256  # images drawn together: their fields stay in the processor's cache


def draw(mixture: Mapping[str, float], n: int, shape: Shape, generator: torch.Generator) -> Tensor:
    """`n` images in random order, each maker's number in proportion to its weight (the rounding goes to the first)."""
    total = sum(mixture.values())
    if not mixture or total <= 0 or min(mixture.values()) < 0:
        raise UsageError(
            f"expected a mixture of makers with weights of at least 0 and one above 0, got {dict(mixture)}"
        )
    counts = {name: int(n * weight / total) for name, weight in mixture.items()}
    counts[next(iter(counts))] += n - sum(counts.values())
    pictures = torch.empty(n, *shape, device=generator.device)
    places = torch.randperm(n, generator=generator, device=generator.device)
    at = 0
    for name, count in counts.items():
        for size in [_CHUNK] * (count // _CHUNK) + [count % _CHUNK] * (count % _CHUNK > 0):
            pictures[places[at : at + size]] = MAKERS[name](size, shape, generator)
            at += size
    return pictures
