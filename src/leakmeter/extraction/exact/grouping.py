"""Which units of a layer the bends above it show, and which of these the lines confirm."""

from __future__ import annotations

import torch
from torch import Tensor

from leakmeter.extraction.exact.bank import Bank, claims
from leakmeter.extraction.exact.outward import last_layer
from leakmeter.extraction.exact.rows import agree, components, evidence, merge
from leakmeter.extraction.exact.stack import Layer, Stack
from leakmeter.extraction.exact.weights import Precision

_UNSEEN = 0.2
"""Crossings without a bend that a unit may have, against those with one."""
_TOLD, _SAMPLE = 0.1, 64
"""The least share of the bends above a layer that tell their rows themselves; where fewer do, surfaces are followed."""


def grouped(stack: Stack, bank: Bank, rows: Tensor, basis: Tensor, precision: Precision) -> Layer | None:
    """The units above the last layer, as far as the bends `rows` that agree show them."""
    args = bank.x[rows], bank.normals[rows], bank.error[rows]
    found = evidence(stack, *args, basis, precision.tolerance)
    last = last_layer(bank, rows, found, basis, precision.tolerance)
    if last is not None:
        return last.layer
    pairs = agree(found, precision.tolerance, precision.least)
    merged = [merge(found, group) for group in components(pairs)]
    merged = [(row, known) for row, known in merged if bool(known[-1])]
    if not merged:
        return None
    row, known = (torch.stack(column) for column in zip(*merged, strict=True))
    return Layer.of(row[:, :-1], row[:, -1], known[:, :-1])


def confirmed(stack: Stack, bank: Bank, basis: Tensor, tolerance: float) -> tuple[Tensor, Tensor]:
    """Which units of the last layer the lines confirm, [h], and which bends are theirs, [m, h]."""
    matched, missing = claims(stack, bank, basis, tolerance)
    top = stack.layers[-1]
    several = (bank.lines_of(matched) >= 2) & (missing <= _UNSEEN * matched.sum(0))
    single = matched.any(0) & (missing == 0) & top.known.all(1) & (int(bank.long.sum()) >= 3)
    return several | single | top.linear, matched


def few_tell(stack: Stack, bank: Bank, basis: Tensor, tolerance: float) -> bool:
    """Whether at too few bends, of any layer, a bend above the last one would tell its row itself."""
    rows = bank.clear.nonzero()[:, 0]
    rows = rows[:: len(rows) // _SAMPLE + 1]
    args = bank.x[rows], bank.normals[rows], bank.error[rows]
    told = evidence(stack, *args, basis, tolerance).known[:, -1]
    return float(told.double().mean()) < _TOLD
