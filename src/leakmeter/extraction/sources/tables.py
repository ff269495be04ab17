"""Rows of a table that look as rows do: amounts that are mostly small, and places beside the thresholds of students."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import torch
from torch import Tensor

from leakmeter.data.columns import Column, Columns
from leakmeter.extraction.exact_tree.axes import Axes, is_amount
from leakmeter.models.trees.ensemble import TreeEnsemble
from leakmeter.victims.spec import VictimSpec

_FEW = 16  # values of a column that are all asked anyway
_THRESHOLDS = 64  # of a column: those used most often
_KEPT = 0.3  # of the values in a row that do not care for thresholds
_MISSING = 0.1  # of the values where one may be missing


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
        if is_amount(column):
            x[:, place] = _amount(x[:, place], column, generator)
        if column.missing:
            x[torch.rand(n, generator=generator) < _MISSING, place] = torch.nan
    return as_rows(x, spec)


def as_rows(x: Tensor, spec: VictimSpec) -> Tensor:
    """What the columns admit, as float32: an end of a range that float32 does not hold is not rounded over."""
    exact = spec.clamp(x.double())
    rows = exact.float()
    if spec.low is not None and spec.high is not None:
        inward = torch.tensor([torch.inf, -torch.inf], dtype=rows.dtype)
        rows = torch.where(rows.double() < spec.low.double(), rows.nextafter(inward[0]), rows)
        rows = torch.where(rows.double() > spec.high.double(), rows.nextafter(inward[1]), rows)
    return rows


def every_row(spec: VictimSpec, most: int) -> Tensor | None:
    """All rows there are, in the order of their values; None: more than `most`."""
    axes = Axes(spec.columns) if spec.columns is not None else None
    if axes is None or axes.cells is None or axes.cells > most:
        return None
    return axes.rows(list(product(*(axis.points for axis in axes))), torch.float32)


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
    return as_rows(x, spec)


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
