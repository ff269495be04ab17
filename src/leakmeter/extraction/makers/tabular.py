"""Rows of a table drawn by code: the box, its corners, and walks along one feature at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from leakmeter.box import Box
from leakmeter.errors import UsageError
from leakmeter.extraction.makers.canvas import chance, uniform

_WALK = 8  # rows of one walk: enough to see a threshold or a bend


def tabular(
    n: int,
    low: Tensor | None,
    high: Tensor | None,
    features: int,
    generator: torch.Generator,
    *,
    levels: Mapping[int, Sequence[float]] | None = None,
    onehot: Sequence[Sequence[int]] = (),
) -> Tensor:
    """`n` rows inside the box, [n, features]; open sides are drawn from normals of several widths.

    Args:
        n: how many rows.
        low: the lowest value, one or one a feature; None: open.
        high: the highest value; None: open.
        features: how many columns.
        generator: where the numbers come from.
        levels: columns that take only these values, such as codes of a category or 0 and 1.
        onehot: groups of columns of which one is 1 and the others 0.
    """
    counts = _shares(n)
    rows = torch.cat(
        [
            _points(counts[0], features, generator),
            _corners(counts[1], features, generator),
            _walks(counts[2], features, generator),
        ]
    )
    rows = _into_box(rows, low, high)
    for column, values in (levels or {}).items():
        choices = torch.tensor(values, dtype=rows.dtype, device=rows.device)
        rows[:, column] = choices[torch.randint(len(choices), (n,), generator=generator, device=rows.device)]
    for group in onehot:
        columns = torch.tensor(group, device=rows.device)
        chosen = torch.randint(len(group), (n,), generator=generator, device=rows.device)
        rows[:, columns] = torch.nn.functional.one_hot(chosen, len(group)).to(rows)
    return rows[torch.randperm(n, generator=generator, device=rows.device)]


def _shares(n: int) -> tuple[int, int, int]:
    corners, walks = n // 6, n // 3
    return n - corners - walks, corners, walks


def _points(n: int, features: int, generator: torch.Generator) -> Tensor:
    """Uniform points in [-1, 1], half of them pulled toward the middle."""
    points = uniform(generator, n, features, low=-1)
    return points * torch.where(chance(generator, 0.5, n, 1).bool(), uniform(generator, n, 1), 1)


def _corners(n: int, features: int, generator: torch.Generator) -> Tensor:
    """Points with a random share of the features at an end of their range."""
    at_end = uniform(generator, n, features) < uniform(generator, n, 1)
    points = uniform(generator, n, features, low=-1)
    return torch.where(at_end, points.sign(), points)


def _walks(n: int, features: int, generator: torch.Generator) -> Tensor:
    """Straight walks: one feature crosses its range while the others stay."""
    walks = -(-n // _WALK)
    start = uniform(generator, walks, 1, features, low=-1).repeat(1, _WALK, 1)
    moving = torch.randint(features, (walks, 1, 1), generator=generator, device=generator.device)
    steps = torch.linspace(-1, 1, _WALK, device=generator.device)[None, :, None].expand(walks, -1, 1)
    return start.scatter_(2, moving.expand(-1, _WALK, 1), steps).flatten(0, 1)[:n]


def _into_box(unit: Tensor, low: Tensor | None, high: Tensor | None) -> Tensor:
    """From [-1, 1] to the box; an open side reaches out as a normal variable does."""
    if low is None and high is None:
        return torch.erfinv(unit.clamp(-0.999, 0.999)) * 1.5
    if low is None or high is None:
        raise UsageError("expected a box that is closed or open on both sides, got one open side; give low and high")
    return Box(low, high).from_unit((unit + 1) / 2)
