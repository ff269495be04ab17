"""Rows of a table that look as rows do: amounts that are mostly small, and places beside the thresholds of students."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from leakmeter.data.columns import Column, Columns
from leakmeter.models.trees.ensemble import TreeEnsemble
from leakmeter.victims.spec import VictimSpec

_AMOUNT = 1000  # width of a range, from 0 or above, that is taken for an amount
_FEW = 16  # values of a column that are all asked anyway
_THRESHOLDS = 64  # of a column: those used most often
_KEPT = 0.3  # of the values in a row that do not care for thresholds


def table_of(spec: VictimSpec) -> Columns | None:
    """The columns the victim declares, else numbers in its box; None: no table with a range."""
    if spec.columns is not None:
        return spec.columns
    if len(spec.input_shape) != 1 or spec.low is None or spec.high is None:
        return None
    return Columns.plain(spec.low, spec.high, spec.features)


def amounts(n: int, spec: VictimSpec, generator: torch.Generator) -> Tensor:
    """Uniform rows, but amounts are small as often as they are large, and often nothing at all."""
    columns, x = table_of(spec), spec.sample(n, generator).double()
    assert columns is not None
    for place, column in enumerate(columns):
        if _is_amount(column):
            x[:, place] = _amount(x[:, place], column, generator)
    return spec.clamp(x).float()


def beside_thresholds(n: int, spec: VictimSpec, generator: torch.Generator, students: Sequence[TreeEnsemble]) -> Tensor:
    """Rows whose values are spread evenly over the stretches between the thresholds of students.

    A model has its thresholds where the rows it learned from lay, so these are rows like those.
    """
    columns, x = table_of(spec), amounts(n, spec, generator).double()
    assert columns is not None
    for place, column in enumerate(columns):
        if column.values is not None and len(column.values) <= _FEW:
            continue
        edges = _edges(place, column, students)
        stretch = torch.randint(len(edges) - 1, (n,), generator=generator)
        inside = torch.lerp(edges[stretch], edges[stretch + 1], torch.rand(n, generator=generator, dtype=torch.float64))
        kept = torch.rand(n, generator=generator) < _KEPT
        x[:, place] = torch.where(kept, x[:, place], inside)
    return spec.clamp(x).float()


def _is_amount(column: Column) -> bool:
    low, high = column.ends
    return column.kind in ("numeric", "integer") and low >= 0 and high - low >= _AMOUNT


def _amount(uniform: Tensor, column: Column, generator: torch.Generator) -> Tensor:
    low, high = column.ends
    unit = torch.rand(len(uniform), generator=generator, dtype=torch.float64)
    small = low + torch.expm1(unit * torch.log1p(torch.tensor(high - low, dtype=torch.float64)))
    choice = torch.rand(len(uniform), generator=generator)
    rest = torch.full_like(small, low) if low == 0 else small
    return torch.where(choice < 1 / 3, uniform, torch.where(choice < 2 / 3, small, rest))


def _edges(place: int, column: Column, students: Sequence[TreeEnsemble]) -> Tensor:
    used = torch.cat([student.threshold[student.feature == place] for student in students])
    low, high = column.ends
    values, counts = np.unique(used[(used > low) & (used < high)].numpy(), return_counts=True)
    often = torch.from_numpy(np.sort(values[np.argsort(-counts, kind="stable")[:_THRESHOLDS]]))
    return torch.cat([torch.tensor([low]).double(), often, torch.tensor([high]).double()])
