"""Parts and boxes as a `TreeEnsemble`: a graph of splits that needs no pickle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from torch import Tensor

from leakmeter.extraction.exact_tree.asking import Asker
from leakmeter.extraction.exact_tree.axes import Axes, Axis
from leakmeter.extraction.exact_tree.bisection import Split
from leakmeter.extraction.exact_tree.parts import Part
from leakmeter.models.trees.ensemble import Link, Tree, TreeEnsemble

_SURE = 8.0  # the logit of a label that is all the view shows


@dataclass
class Writer:
    """Adds nodes; a node may have several parents, so that groups of levels share their subtree."""

    axes: Axes
    outputs: int
    feature: list[int] = field(default_factory=list)
    threshold: list[float] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    value: list[list[float]] = field(default_factory=list)

    def leaf(self, value: Sequence[float]) -> int:
        """A node that answers."""
        return self._node(-1, 0.0, list(value))

    def branch(self, column: int, threshold: float, left: int, right: int) -> int:
        """A node that sends x <= threshold to the left."""
        node = self._node(column, threshold, [0.0] * self.outputs)
        self.left[node], self.right[node] = left, right
        return node

    def split(self, split: Split, children: Sequence[int]) -> int:
        """The node that parts as `split` does."""
        axis = self.axes[split.axis]
        if not split.groups:
            return self.branch(axis.places[0], axis.cut(split.below, split.above), *children)
        of = {level: child for group, child in zip(split.groups, children, strict=True) for level in group}
        return self.choose(axis, of)

    def choose(self, axis: Axis, of: dict[int, int]) -> int:
        """The node that sends each level of the axis to its child."""
        if len(axis.places) > 1:
            node = of[max(of)]
            for level in sorted(of)[:-1]:
                node = self.branch(axis.places[level], 0.5, node, of[level])
            return node
        levels = sorted(of, key=lambda level: axis.levels[level])
        node = of[levels[-1]]
        for lower, upper in reversed(list(pairwise(levels))):
            if node != of[lower]:
                node = self.branch(axis.places[0], (axis.levels[lower] + axis.levels[upper]) / 2, of[lower], node)
        return node

    def tree(self, root: int) -> Tree:
        """The tree that starts at `root`, which becomes node 0."""
        order = np.arange(len(self.feature))
        order[0], order[root] = root, 0  # its own inverse
        at = [np.asarray(column)[order] for column in (self.feature, self.threshold, self.left, self.right, self.value)]
        return Tree(
            at[0], at[1].astype(float), order[at[2]], order[at[3]], at[4].astype(float), np.ones(len(order), dtype=bool)
        )

    def _node(self, column: int, threshold: float, value: list[float]) -> int:
        node = len(self.feature)
        self.feature.append(column)
        self.threshold.append(threshold)
        self.left.append(node)
        self.right.append(node)
        self.value.append(value)
        return node


def write_parts(root: Part, axes: Axes, asker: Asker, kind: str) -> TreeEnsemble:
    """The copy that answers in every leaf what was answered there; where nothing was, what is answered most often."""
    usual = Counter(asker.known.values()).most_common(1)[0][0]
    writer = Writer(axes, len(asker.values[0]))

    def write(part: Part) -> int:
        if part.split is not None:
            return writer.split(part.split, [write(child) for child in part.parts])
        answers = Counter(asker.known[point] for point in part.points)
        answer = part.answer if part.answer is not None else (answers.most_common(1) or [(usual, 0)])[0][0]
        return writer.leaf(numbers(asker.values[answer], kind))

    return ensemble(writer.tree(write(root)), kind)


def numbers(value: Tensor, kind: str) -> list[float]:
    """An answer as what a leaf holds."""
    return [float(v) * (_SURE if kind == "labels" else 1.0) for v in value]


def ensemble(tree: Tree, kind: str) -> TreeEnsemble:
    """One tree whose leaves hold what the view shows."""
    link: Link = "scores" if kind in ("logits", "labels") else "probs"
    return TreeEnsemble([tree], [0.0] * tree.value.shape[1], link=link)
