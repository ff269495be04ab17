"""`TreeEnsemble`: any number of decision trees in a few tensors, which decide as the library that grew them does.

Libraries differ in whether a split sends x < t or x <= t to the left, and in the precision x is rounded to before. Both
are kept, so that a point beside a threshold goes where it went in the original.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from leakmeter.files import check_announced
from leakmeter.models.trees.masks import Masks, masks

Link = Literal["scores", "score", "probs"]
"""What the trees add up to: a logit for each class, one logit for class 1 of two, or a probability for each class."""
_LINKS: tuple[str, ...] = get_args(Link)
_MANY = 64  # rows from which tables are worth making
_WORK = 1 << 22  # numbers held at once while rows fall through the trees
_LEAF = -1


@dataclass(frozen=True, eq=False)
class Tree:
    """One tree as arrays over its nodes; node 0 is the root."""

    feature: NDArray[np.int64]
    """The column a node looks at, -1 at a leaf."""
    threshold: NDArray[np.float64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    value: NDArray[np.float64]
    """[nodes, outputs]; only those of leaves count."""
    missing_left: NDArray[np.bool_]
    """Where a missing value goes."""
    members: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """Nodes that split by category: the categories that go left."""


def leaf(value: Sequence[float]) -> Tree:
    """A tree that says the same to everybody."""
    none = np.array([_LEAF], dtype=np.int64)
    at = np.zeros(1, dtype=np.int64)
    return Tree(none, np.zeros(1), at, at, np.array([value], dtype=float), np.ones(1, dtype=bool))


class TreeEnsemble(nn.Module):
    """Input [n, features] -> logits [n, classes]; all state is in buffers, whose sizes a state dict may change."""

    sized_by_state = True
    """It is as large as the state that is loaded into it."""

    feature: Tensor
    threshold: Tensor
    left: Tensor
    right: Tensor
    value: Tensor
    missing_left: Tensor
    category: Tensor
    """For each node the row of `members` that goes left, -1 where the split is by number."""
    members: Tensor
    roots: Tensor
    base: Tensor
    """What is added to the sum of the leaves."""
    semantics: Tensor
    """Whether x = threshold goes right, whether x is rounded to float32 first, and the number of the link."""

    def __init__(
        self,
        trees: Sequence[Tree],
        base: Sequence[float],
        *,
        link: Link = "scores",
        strict: bool = False,
        single: bool = False,
    ) -> None:
        super().__init__()
        for name, tensor in _joined(trees, len(base)).items():
            self.register_buffer(name, tensor)
        self.register_buffer("base", torch.tensor(base, dtype=torch.float64))
        self.register_buffer("semantics", torch.tensor([int(strict), int(single), _LINKS.index(link)]))
        self._masks: Masks | Literal["none", "unknown"] = "unknown"

    def forward(self, x: Tensor) -> Tensor:
        """Logits as float64; probabilities become their logarithms."""
        rows = x.flatten(1)
        step = max(1, _WORK // max(1, len(self.roots) * self.value.shape[1]))
        total = torch.cat([self._add_up(piece) for piece in torch.split(rows, step)]) + self.base
        link = _LINKS[int(self.semantics[2])]
        if link == "scores":
            return total
        if link == "score":
            return torch.cat([torch.zeros_like(total), total], 1)
        return total.clamp_min(torch.finfo(torch.float32).tiny).log()

    def leaves(self, x: Tensor) -> Tensor:
        """The node each row ends in, [n, trees]."""
        rows = x.float().double() if self.semantics[1] else x.double()
        if self._masks == "unknown" and len(rows) >= _MANY:
            self._masks = masks(dict(self.named_buffers()), bool(self.semantics[0])) or "none"
        if isinstance(self._masks, Masks):
            return self._masks.leaves(rows)
        node = self.roots.expand(len(rows), -1)
        while bool((self.feature[node] != _LEAF).any()):
            node = self._step(rows, node)
        return node

    def _apply(self, *rest: Any, **more: Any) -> Any:
        self._masks = "unknown"  # the buffers move
        return super()._apply(*rest, **more)  # type: ignore[no-untyped-call]

    def _add_up(self, x: Tensor) -> Tensor:
        return self.value[self.leaves(x)].sum(1)

    def goes_left(self, x: Tensor, node: Tensor) -> Tensor:
        """Where each row, already rounded as `semantics` says, goes at each of its nodes, [n, nodes]."""
        value = x.gather(1, self.feature[node].clamp_min(0))
        threshold = self.threshold[node]
        goes_left = value < threshold if self.semantics[0] else value <= threshold
        if len(self.members):
            goes_left = torch.where(self.category[node] >= 0, self._is_member(node, value), goes_left)
        return torch.where(value.isnan(), self.missing_left[node], goes_left)

    def _step(self, x: Tensor, node: Tensor) -> Tensor:
        return torch.where(self.goes_left(x, node), self.left[node], self.right[node])

    def _is_member(self, node: Tensor, value: Tensor) -> Tensor:
        """A category nobody declared is in no set."""
        code, known = value.nan_to_num(-1).long(), self.members.shape[1]
        inside = (value >= 0) & (code < known)
        return inside & self.members[self.category[node].clamp_min(0), code.clamp(0, known - 1)]

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Takes the sizes of what is loaded: an ensemble is built by name before it is known how many nodes it has."""
        for name in list(self._buffers):
            if prefix + name in state_dict:
                setattr(self, name, torch.empty_like(state_dict[prefix + name]))
        self._masks = "unknown"
        super()._load_from_state_dict(state_dict, prefix, *rest)


def empty_ensemble(shape: tuple[int, ...], classes: int) -> TreeEnsemble:  # noqa: ARG001
    """The model called `trees`: it answers every input alike until a state dict is loaded."""
    return TreeEnsemble([leaf([0.0] * classes)], [0.0] * classes)


def _joined(trees: Sequence[Tree], outputs: int) -> dict[str, Tensor]:
    starts = np.cumsum([0, *(len(tree.feature) for tree in trees)])
    members = [
        (start + node, codes)
        for start, tree in zip(starts, trees, strict=False)
        for node, codes in tree.members.items()
    ]
    width = 1 + max((max(codes, default=0) for _, codes in members), default=-1)
    check_announced("the categories of its splits", len(members) * width)
    table = torch.zeros(len(members), width, dtype=torch.bool)
    category = torch.full((int(starts[-1]),), -1)
    for row, (node, codes) in enumerate(members):
        category[int(node)] = row
        table[row, list(codes)] = True
    shift = np.repeat(starts[:-1], np.diff(starts))

    def column(name: str, dtype: type) -> Tensor:
        return torch.from_numpy(np.concatenate([getattr(tree, name) for tree in trees]).astype(dtype))

    return {
        "feature": column("feature", np.int64),
        "threshold": column("threshold", np.float64),
        "left": column("left", np.int64) + torch.from_numpy(shift),
        "right": column("right", np.int64) + torch.from_numpy(shift),
        "value": column("value", np.float64).reshape(-1, outputs),
        "missing_left": column("missing_left", np.bool_),
        "category": category,
        "members": table,
        "roots": torch.from_numpy(starts[:-1].copy()),
    }
