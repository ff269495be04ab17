"""Queries drawn by code: pictures by the makers, rows of a table by walks and corners."""

from __future__ import annotations

import torch
from torch import Tensor

from leakmeter.extraction.makers import draw
from leakmeter.extraction.makers.tabular import tabular
from leakmeter.extraction.procedural import COLOUR, GREY
from leakmeter.extraction.sources import into_box
from leakmeter.victims.spec import VictimSpec


def drawings(n: int, spec: VictimSpec, generator: torch.Generator) -> Tensor:
    """Strokes, blobs and silhouettes in grey; dead leaves, textures and blobs in colour."""
    channels, height, width = spec.input_shape
    return into_box(draw(GREY if channels == 1 else COLOUR, n, (channels, height, width), generator), spec)


def rows(n: int, spec: VictimSpec, generator: torch.Generator) -> Tensor:
    """Points, part corners and walks along one feature at a time."""
    drawn = tabular(n, _flat(spec.low, spec), _flat(spec.high, spec), spec.features, generator)
    return drawn.reshape(n, *spec.input_shape)


def _flat(side: Tensor | None, spec: VictimSpec) -> Tensor | None:
    return side if side is None or side.dim() == 0 else side.expand(spec.input_shape).flatten()
