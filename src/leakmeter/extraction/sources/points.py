"""Points of the box that know nothing of the victim: what the cheapest attacker asks."""

from __future__ import annotations

import torch
from torch import Tensor

from leakmeter.errors import UsageError
from leakmeter.victims.spec import VictimSpec


def uniform(n: int, spec: VictimSpec, generator: torch.Generator) -> Tensor:
    """Uniform points of the box; standard normal ones where it is open."""
    return spec.sample(n, generator).float()


def corners(n: int, spec: VictimSpec, generator: torch.Generator) -> Tensor:
    """Corners of the box, each feature at either end by a fair coin.

    A boundary that any feature moves is crossed soonest there; an unfair coin would spend queries on the mean alone.
    """
    if spec.low is None or spec.high is None:
        raise UsageError(
            "expected a box with both ends for queries from its corners, got an open one; give low and high"
        )
    high = torch.rand(n, *spec.input_shape, generator=generator) < 0.5
    return torch.where(high, spec.high.float(), spec.low.float())
