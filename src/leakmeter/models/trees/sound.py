"""Whether an ensemble from a file can be walked: a damaged one has nodes that lead outside, or in a circle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from leakmeter.models.trees.ensemble import TreeEnsemble

_LINKS = 3
_COLUMNS = ("feature", "threshold", "left", "right", "missing_left", "category")


def check_sound(ensemble: TreeEnsemble, features: int) -> None:
    """Raises ValueError unless every row of so many features ends in a leaf of every tree."""
    nodes, outputs = ensemble.value.shape
    if any(getattr(ensemble, name).shape != (nodes,) for name in _COLUMNS):
        raise ValueError("its trees do not have as many splits as nodes")
    if not (outputs == len(ensemble.base) > 0 and len(ensemble.roots) > 0):
        raise ValueError(f"its trees have {outputs} outputs and {len(ensemble.base)} starts")
    if ensemble.semantics.shape != (3,) or not 0 <= int(ensemble.semantics[2]) < _LINKS:
        raise ValueError("it does not say how its trees decide")
    if not _within(ensemble.feature, -1, features) or not _within(ensemble.category, -1, len(ensemble.members)):
        raise ValueError(f"a split looks at a column beyond its {features}, or at categories it does not have")
    if not _within(ensemble.roots, 0, nodes):
        raise ValueError("a tree has no root")
    _walk(ensemble, nodes)


def _within(values: torch.Tensor, low: int, high: int) -> bool:
    return bool(((values >= low) & (values < high)).all())


def _walk(ensemble: TreeEnsemble, nodes: int) -> None:
    """Visits every node once, level by level."""
    seen, level = torch.zeros(nodes, dtype=torch.bool), ensemble.roots
    while len(level):
        if bool(seen[level].any()) or int(level.bincount(minlength=1).max()) > 1:
            raise ValueError("a node of it has two parents")
        seen[level] = True
        inner = level[ensemble.feature[level] >= 0]
        level = torch.cat([ensemble.left[inner], ensemble.right[inner]])
        if not _within(level, 0, nodes):
            raise ValueError("a node of it leads outside")
