"""Rows drawn by what is published of a table: the means of its numbers and how often each level comes up."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from leakmeter.data.columns import Column
from leakmeter.extraction.exact_tree.axes import is_amount
from leakmeter.extraction.sources.tables import amounts, as_rows
from leakmeter.victims.spec import VictimSpec

_STEEPEST, _HALVINGS, _FLAT = 1e4, 60, 1e-6  # of the exponential that has a mean


def published(n: int, spec: VictimSpec, generator: torch.Generator) -> Tensor | None:
    """Rows with the means and shares that are published, each column for itself; None: nothing is."""
    columns = spec.columns
    if columns is None or not any(column.mean is not None or column.shares for column in columns):
        return None
    x = amounts(n, spec, generator).double()
    for place, column in enumerate(columns):
        if column.shares:
            assert column.values is not None
            chosen = torch.multinomial(_weights(column), n, replacement=True, generator=generator)
            x[:, place] = torch.tensor(column.values, dtype=torch.float64)[chosen]
        elif column.mean is not None and not column.group:
            drawn = _numbers(torch.rand(2, n, generator=generator, dtype=torch.float64), column, column.mean)
            x[:, place] = torch.where(x[:, place].isnan(), x[:, place], drawn)
    for group in columns.groups.values():
        ones = torch.tensor([columns[place].mean or 0.0 for place in group], dtype=torch.float64)
        if ones.sum() > 0:
            chosen = torch.multinomial(ones, n, replacement=True, generator=generator)
            x[:, group] = torch.nn.functional.one_hot(chosen, len(group)).double()
    return as_rows(x, spec)


def _weights(column: Column) -> Tensor:
    """The shares in the order of the column's values: levels that are numbers are listed rising."""
    pairs = list(zip(column.levels, column.shares, strict=True))
    if not column.words:
        pairs.sort(key=lambda pair: float(pair[0]))
    return torch.tensor([share for _, share in pairs], dtype=torch.float64)


def _numbers(unit: Tensor, column: Column, mean: float) -> Tensor:
    """Numbers in the range with the mean; amounts from 0 are nothing, or small as often as large, if that suits it."""
    low, high = column.ends
    if low == 0 and is_amount(column):
        some = mean * math.log1p(high) / (high - math.log1p(high))  # the share that is not 0
        if some < 1:
            return torch.where(unit[0] < some, torch.expm1(unit[1] * math.log1p(high)), 0.0)
    return low + _exponential(unit[0], (mean - low) / (high - low)) * (high - low)


def _exponential(unit: Tensor, mean: float) -> Tensor:
    """Numbers from 0 to 1 about which nothing is known but their mean: exponential, rising or falling."""
    if mean > 0.5:
        return 1 - _exponential(unit, 1 - mean)
    least, most = _FLAT, _STEEPEST
    for _ in range(_HALVINGS):
        rate = (least + most) / 2
        least, most = (rate, most) if 1 / rate - 1 / math.expm1(min(rate, 500.0)) > mean else (least, rate)
    return -torch.log1p(unit * math.expm1(-most)) / most
