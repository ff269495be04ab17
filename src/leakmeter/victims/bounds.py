"""The lowest and the highest value of inputs, as somebody says them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leakmeter.errors import UsageError


class Unsaid(Enum):
    """Not said: for bounds, where None already means unbounded."""

    UNSAID = "unsaid"


UNSAID = Unsaid.UNSAID
Bound = float | Sequence[float] | np.ndarray | Tensor | None | Unsaid


def edge_of(side: str, bound: Any, shape: tuple[int, ...]) -> Tensor | None:
    """A bound as numbers that fit inputs of that shape; None: there is none."""
    if bound is None:
        return None
    try:
        edge = torch.as_tensor(bound, dtype=torch.float64)
        torch.broadcast_to(edge, shape)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UsageError(f"expected {side} to be a number or one number a feature of shape {shape}") from error
    if not torch.isfinite(edge).all():
        raise UsageError(f"expected {side} to be finite; use {side}=None for an unbounded side")
    return edge
