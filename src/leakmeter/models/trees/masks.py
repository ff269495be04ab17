"""Where rows end in small trees, all trees at once: one look at a table for each column instead of one step a split.

The leaves of a tree, from left to right, are the bits of a word. A split that sends a row to the right rules out the
leaves on its left; the lowest bit that is left after all splits is the leaf of the row (QuickScorer, Lucchese et al.
2015). Which splits of a column send a row to the right follows from the stretch between two thresholds its value is in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_LEAVES = 62  # bits of a signed word, less one that is always there
_TABLE = 1 << 24  # words of all tables together


@dataclass(frozen=True)
class _Words:
    """What a column rules out: the word of every tree for each stretch, and at last for a missing value."""

    column: int
    thresholds: Tensor
    words: Tensor


class Masks:
    """The tables of an ensemble."""

    def __init__(self, columns: list[_Words], leaves: Tensor, strict: bool) -> None:
        self._columns, self._leaves, self._strict = columns, leaves, strict

    def leaves(self, x: Tensor) -> Tensor:
        """The node each row ends in, [n, trees]."""
        left = torch.full((len(x), len(self._leaves)), -1, dtype=torch.int64, device=x.device)
        for each in self._columns:
            value = x[:, each.column].contiguous()
            stretch = torch.searchsorted(each.thresholds, value, right=self._strict)
            left &= each.words[torch.where(value.isnan(), len(each.thresholds) + 1, stretch)]
        bit = torch.log2((left & -left).double()).round_().long()
        return self._leaves[torch.arange(len(self._leaves), device=x.device), bit]


def masks(state: Mapping[str, Tensor], strict: bool) -> Masks | None:
    """The tables of an ensemble with these buffers; None: a tree is too large, or splits by category."""
    if len(state["members"]):
        return None
    nodes = {name: state[name].cpu().numpy() for name in ("feature", "threshold", "left", "right", "missing_left")}
    roots = [*state["roots"].tolist(), len(nodes["feature"])]
    if max(end - start for start, end in pairwise(roots)) > 2 * _LEAVES:
        return None
    words = np.full(len(nodes["feature"]), -1, dtype=np.int64)
    leaves = np.zeros((len(roots) - 1, _LEAVES + 1), dtype=np.int64)
    for tree, root in enumerate(roots[:-1]):
        found = _number(nodes, int(root), words)
        if found is None:
            return None
        leaves[tree, : len(found)] = found
    device = state["feature"].device
    columns = _tables(nodes, words, np.asarray(roots))
    if columns is None:
        return None
    placed = [_Words(each.column, each.thresholds.to(device), each.words.to(device)) for each in columns]
    return Masks(placed, torch.from_numpy(leaves).to(device), strict)


def _number(nodes: Mapping[str, NDArray[np.generic]], root: int, words: NDArray[np.int64]) -> list[int] | None:
    """The leaves from left to right; writes for each split the word without the leaves on its left."""
    order: list[int] = []
    left, right, feature = nodes["left"], nodes["right"], nodes["feature"]
    waiting: list[tuple[int, int]] = [(root, -1)]  # a node, or a split whose left side began at this leaf
    while waiting:
        node, began = waiting.pop()
        if began >= 0:
            words[node] = ~(((1 << (len(order) - began)) - 1) << began)
        elif int(feature[node]) < 0:
            order.append(node)
            if len(order) > _LEAVES:
                return None
        else:
            waiting += [(int(right[node]), -1), (node, len(order)), (int(left[node]), -1)]
    return order if len(set(order)) == len(order) else None  # branches that share a subtree would share its words


def _tables(
    nodes: Mapping[str, NDArray[np.generic]], words: NDArray[np.int64], roots: NDArray[np.int64]
) -> list[_Words] | None:
    feature, threshold = nodes["feature"], np.asarray(nodes["threshold"], dtype=float)
    tree = np.searchsorted(roots, np.arange(len(words)), side="right") - 1
    made, size = [], 0
    for column in np.unique(feature[feature >= 0]):  # type: ignore[operator]
        at = np.flatnonzero(feature == column)
        found, stretch = np.unique(threshold[at], return_inverse=True)
        size += (len(found) + 2) * (len(roots) - 1)
        if size > _TABLE:
            return None
        table = np.full((len(found) + 2, len(roots) - 1), -1, dtype=np.int64)
        np.bitwise_and.at(table, (stretch + 1, tree[at]), words[at])
        table[:-1] = np.bitwise_and.accumulate(table[:-1], axis=0)
        lost = at[~np.asarray(nodes["missing_left"], dtype=bool)[at]]
        np.bitwise_and.at(table, (np.full(len(lost), -1), tree[lost]), words[lost])
        made.append(_Words(int(column), torch.from_numpy(found), torch.from_numpy(table)))
    return made
