"""Exact Shapley values of an ensemble of trees against one baseline (Lundberg et al. 2020, interventional TreeSHAP).

A leaf is reached by a mixture of the row and the baseline if the row's values stand where only the row's pass, and the
baseline's where only the baseline's do. With a features of the first kind on its path and b of the second, this is a
game whose Shapley values are known: each of the first adds (a-1)! b! / (a+b)! of the leaf's value, each of the second
takes a! (b-1)! / (a+b)! of it away. The ensemble's values are the sums over its leaves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from leakmeter.models.trees.ensemble import TreeEnsemble

_WORK = 1 << 22  # numbers held at once


def tree_shapley(trees: TreeEnsemble, x: Tensor, baseline: Tensor) -> Tensor:
    """What each feature adds to what the trees add up to, [n, classes, features].

    Of one log-odds for two classes, the first class gets the opposite.
    """
    paths = _paths(trees)
    rows, nothing = x.flatten(1), baseline.flatten()[None]
    passed = _passed(trees, paths, nothing)[0]
    step = max(1, _WORK // max(1, paths.feature.numel() * trees.value.shape[1]))
    values = torch.cat([_values(trees, paths, piece, passed) for piece in torch.split(rows, step)])
    return torch.cat([-values, values], 1) if int(trees.semantics[2]) == 1 else values


@dataclass(frozen=True, eq=False)
class _Paths:
    """From roots to leaves, [leaves, longest]; -1 fills up."""

    leaf: Tensor
    node: Tensor
    left: Tensor
    """Whether the path goes left at the node."""
    feature: Tensor
    """The features on the path, each once, [leaves, most]."""
    member: Tensor
    """Which of these the node asks about, [leaves, longest]."""


def _paths(trees: TreeEnsemble) -> _Paths:
    found: list[tuple[int, list[tuple[int, bool]]]] = []
    stack: list[tuple[int, list[tuple[int, bool]]]] = [(int(root), []) for root in trees.roots]
    feature, left, right = (column.tolist() for column in (trees.feature, trees.left, trees.right))
    while stack:
        node, path = stack.pop()
        if feature[node] < 0:
            found.append((node, path))
        else:
            stack += [(left[node], [*path, (node, True)]), (right[node], [*path, (node, False)])]
    longest = max(1, max(len(path) for _, path in found))
    nodes, ways, members = (torch.full((len(found), longest), -1) for _ in range(3))
    features = torch.full((len(found), longest), -1)
    for leaf, (_, path) in enumerate(found):
        order = list(dict.fromkeys(feature[node] for node, _ in path))
        features[leaf, : len(order)] = torch.tensor(order, dtype=torch.long)
        for place, (node, goes_left) in enumerate(path):
            nodes[leaf, place], ways[leaf, place] = node, int(goes_left)
            members[leaf, place] = order.index(feature[node])
    return _Paths(torch.tensor([leaf for leaf, _ in found]), nodes, ways, features, members)


def _passed(trees: TreeEnsemble, paths: _Paths, x: Tensor) -> Tensor:
    """Whether each row passes all that a path asks about each of its features, [n, leaves, features of the path]."""
    rows = x.float().double() if trees.semantics[1] else x.double()
    inner = (trees.feature >= 0).nonzero()[:, 0]
    goes_left = torch.zeros(len(rows), len(trees.feature), dtype=torch.bool)
    if len(inner):
        goes_left[:, inner] = trees.goes_left(rows, inner.expand(len(rows), -1))
    wrong = (goes_left[:, paths.node.clamp_min(0)] != paths.left.bool()) & (paths.node >= 0)
    failed = torch.zeros(len(rows), *paths.feature.shape)
    member = paths.member.clamp_min(0).expand(len(rows), -1, -1)
    return failed.scatter_add_(2, member, wrong.float()) == 0


def _values(trees: TreeEnsemble, paths: _Paths, x: Tensor, nothing: Tensor) -> Tensor:
    own, used = _passed(trees, paths, x), paths.feature >= 0
    only_x, only_nothing = own & ~nothing & used, ~own & nothing & used
    reached = (own | nothing | ~used).all(2)
    a, b = only_x.sum(2), only_nothing.sum(2)
    plus, minus = (table[a, b] for table in _shares(paths.feature.shape[1]))
    share = (only_x * plus[:, :, None] - only_nothing * minus[:, :, None]) * reached[:, :, None]
    total = torch.zeros(len(x), trees.value.shape[1], x.shape[1] + 1, dtype=torch.float64)
    at = torch.where(used, paths.feature, x.shape[1]).flatten().expand(len(x), -1)
    for output, value in enumerate(trees.value[paths.leaf].T):
        total[:, output].scatter_add_(1, at, (share * value[:, None]).flatten(1))
    return total[:, :, :-1]


def _shares(most: int) -> tuple[Tensor, Tensor]:
    """What one of `a` features adds and one of `b` takes, each [a, b]."""
    f = [math.factorial(k) for k in range(2 * most + 1)]
    plus = [[f[a - 1] * f[b] / f[a + b] if a else 0.0 for b in range(most + 1)] for a in range(most + 1)]
    minus = [[f[a] * f[b - 1] / f[a + b] if b else 0.0 for b in range(most + 1)] for a in range(most + 1)]
    return torch.tensor(plus, dtype=torch.float64), torch.tensor(minus, dtype=torch.float64)
