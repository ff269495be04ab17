"""A few large shapes on an empty ground: what a grey-scale classifier of objects is used to."""

from __future__ import annotations

import torch
from torch import Tensor

from leakmeter.extraction.makers.canvas import Shape
from leakmeter.extraction.makers.leaves import paint_leaves


def blobs(n: int, shape: Shape, generator: torch.Generator) -> Tensor:
    """Up to six boxes and ellipses on black."""
    return paint_leaves(torch.zeros(n, *shape, device=generator.device), 6, shape, generator)
