"""CatBoost's models, in the JSON it exports, as a `TreeEnsemble`."""

from __future__ import annotations

from typing import Any

import numpy as np

from leakmeter.errors import UsageError
from leakmeter.models.trees.ensemble import Tree, TreeEnsemble


def from_catboost(document: dict[str, Any], source: str = "the CatBoost model") -> TreeEnsemble:
    """Symmetric trees on numbers: x is rounded to float32, and x > border goes right."""
    info = document.get("features_info", {})
    if info.get("text_features") or info.get("embedding_features"):
        raise UsageError(
            f"expected a CatBoost model on numbers and categories in {source}, got one with text or embedding "
            "features; give the model itself through package.module:factory"
        )
    if "oblivious_trees" not in document:
        raise UsageError(f"expected symmetric CatBoost trees in {source}, got another grow_policy")
    flat = {each["feature_index"]: each["flat_feature_index"] for each in info.get("float_features", [])}
    scale, bias = document["scale_and_bias"]
    trees = [_tree(tree, flat, len(bias), float(scale)) for tree in document["oblivious_trees"]]
    link = "score" if len(bias) == 1 else "scores"
    return TreeEnsemble(trees, list(map(float, bias)), link=link, single=True)  # type: ignore[arg-type]


def _tree(tree: dict[str, Any], flat: dict[int, int], outputs: int, scale: float) -> Tree:
    """All nodes of one level ask the same question, and split number i is bit i of the leaf's number."""
    splits = tree["splits"] or []
    depth = len(splits)
    if len(tree["leaf_values"]) != outputs << depth:
        raise ValueError(f"a tree of depth {depth} with {len(tree['leaf_values'])} values")
    inner = (1 << depth) - 1
    leaves = np.asarray(tree["leaf_values"], dtype=float).reshape(-1, outputs) * scale
    nodes = inner + len(leaves)
    feature, threshold = np.full(nodes, -1), np.zeros(nodes)
    left, right = np.arange(nodes), np.arange(nodes)
    value = np.zeros((nodes, outputs))
    for node in range(inner):  # numbered as a heap: the question of a node is that of its level, highest bit first
        split = splits[depth - (node + 1).bit_length()]
        feature[node], threshold[node] = flat[split["float_feature_index"]], split["border"]
        left[node], right[node] = 2 * node + 1, 2 * node + 2
    value[inner:] = leaves
    return Tree(feature, threshold, left, right, value, np.ones(nodes, dtype=bool))
