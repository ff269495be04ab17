"""What stands for a feature that is taken away, and which features are taken away together."""

from __future__ import annotations

import torch
from torch import Tensor

from leakmeter.errors import UsageError
from leakmeter.oracle.explanations.base import Scores
from leakmeter.victims.spec import VictimSpec

_PARTS = 7  # squares a side of a picture, unless a size is given


def baseline(spec: VictimSpec, value: float | None) -> Tensor:
    """What stands for nothing, [*input_shape]: `value` everywhere; None: zero, or what the box has nearest to it."""
    if value is None:
        return spec.clamp(torch.zeros(1, *spec.input_shape, dtype=spec.dtype))[0]
    low, high = spec.low, spec.high
    if (low is not None and bool((low > value).any())) or (high is not None and bool((high < value).any())):
        ends = (float("-inf") if low is None else float(low.max()), float("inf") if high is None else float(high.min()))
        raise UsageError(
            f"expected a baseline inside the box, from {ends[0]:g} to {ends[1]:g}, got {value:g}; leave it out for zero"
        )
    return spec.clamp(torch.full((1, *spec.input_shape), value, dtype=spec.dtype))[0]


def players(spec: VictimSpec, size: int | None = None) -> Tensor:
    """Which features are taken away together: the number of the player each belongs to, [*input_shape].

    Of pictures squares of `size` pixels, all channels together (None: seven a side); else every feature by itself, but
    a one-hot group as one.
    """
    if len(spec.input_shape) == 3:
        _, height, width = spec.input_shape
        side = size or max(1, min(height, width) // _PARTS)
        rows, columns = torch.arange(height) // side, torch.arange(width) // side
        squares = rows[:, None] * (int(columns[-1]) + 1) + columns
        return squares.expand(spec.input_shape)
    alone = torch.arange(spec.features)
    if spec.columns is not None:
        for group in spec.columns.groups.values():
            alone[group] = group[0]
    numbers: Tensor = torch.unique(alone, return_inverse=True)[1]
    return numbers.reshape(spec.input_shape)


def count(spec: VictimSpec, size: int | None = None) -> int:
    """How many players there are."""
    return int(players(spec, size).max()) + 1


def scores_of_parts(x: Tensor, kept: Tensor, scores: Scores, size: int | None = None) -> Tensor:
    """The scores of each row with some parts only, [n, shown, ways]; `kept`: which, [ways, parts] of booleans."""
    of, nothing = players(scores.spec, size).to(x.device), baseline(scores.spec, None).to(x)
    told = []
    for ways in torch.split(kept.to(x.device), max(1, scores.batch // len(x))):
        inputs = torch.where(ways[:, of][:, None], x, nothing).flatten(0, 1)
        told.append(scores(inputs).reshape(len(ways), len(x), -1).permute(1, 2, 0))
    return torch.cat(told, dim=2)


def spread(values: Tensor, of: Tensor, *, evenly: bool = False) -> Tensor:
    """The values of players, [n, shown, players], as maps, [n, shown, *input_shape]; `evenly`: their sums stay."""
    if evenly:
        values = values / torch.bincount(of.flatten()).to(values)
    return values[:, :, of.to(values.device)]
