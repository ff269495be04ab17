"""LightGBM's own text files as a `TreeEnsemble`; reading one runs no code and needs no lightgbm."""

from __future__ import annotations

import numpy as np

from leakmeter.errors import UsageError
from leakmeter.files import check_announced
from leakmeter.models.trees.ensemble import Tree, TreeEnsemble

_CATEGORICAL, _DEFAULT_LEFT, _ZERO_MISSING, _NAN_MISSING = 1, 2, 4, 8


def from_lightgbm(text: str, source: str = "the LightGBM model") -> TreeEnsemble:
    """The model `Booster.save_model` writes: x stays float64, and x <= threshold goes left."""
    head = header(text, source)
    objective, *options = head.get("objective", "").split()
    settings = dict(option.split(":", 1) for option in options if ":" in option)
    if objective not in ("binary", "multiclass", "softmax"):
        raise UsageError(
            f"expected a LightGBM classifier (binary or multiclass) in {source}, got the objective "
            f"'{objective or 'none'}'; leakmeter measures copies of classifiers"
        )
    outputs = int(head["num_tree_per_iteration"])
    scale = float(settings.get("sigmoid", 1.0)) if objective == "binary" else 1.0
    blocks = [_fields(block) for block in text.split("end of trees")[0].split("Tree=")[1:]]
    check_announced(source, 8 * outputs * sum(len(block.get("leaf_value", "")) for block in blocks))
    if "average_output" in head:
        scale /= len(blocks) / outputs
    trees = [_tree(block, number % outputs, outputs, scale, source) for number, block in enumerate(blocks)]
    return TreeEnsemble(trees, [0.0] * outputs, link="score" if outputs == 1 else "scores")


def header(text: str, source: str) -> dict[str, str]:
    """The lines before the first tree."""
    head, found, _ = text.partition("Tree=")
    fields = _fields(head)
    if not found or "num_tree_per_iteration" not in fields:
        raise UsageError(f"expected a LightGBM model as text in {source}, got something else; use Booster.save_model")
    return fields


def _fields(block: str) -> dict[str, str]:
    return {name: value for name, _, value in (line.partition("=") for line in block.splitlines()) if name}


def _numbers(block: dict[str, str], name: str, kind: type) -> np.ndarray:
    return np.array(block.get(name, "").split(), dtype=kind)


def _tree(block: dict[str, str], group: int, outputs: int, scale: float, source: str) -> Tree:
    if block.get("is_linear", "0") != "0":
        raise UsageError(f"expected constant leaves in {source}, got linear ones (linear_tree=true)")
    leaves = _numbers(block, "leaf_value", float)
    decision = _numbers(block, "decision_type", np.int64)
    splits = len(decision)
    if bool((decision & _ZERO_MISSING).any()):
        raise UsageError(f"expected zeros to be numbers in {source}, got zero_as_missing=true")

    def child(name: str) -> np.ndarray:
        places = _numbers(block, name, np.int64)  # leaf i is written as -1 - i
        return np.concatenate([np.where(places < 0, splits - 1 - places, places), splits + np.arange(len(leaves))])

    value = np.zeros((splits + len(leaves), outputs))
    value[splits:, group] = leaves * scale
    threshold = np.concatenate([_numbers(block, "threshold", float), np.zeros(len(leaves))])
    # a missing value that a column never had in training counts as zero, which x <= threshold decides
    missing = np.where(decision & _NAN_MISSING, (decision & _DEFAULT_LEFT) > 0, threshold[:splits] >= 0)
    missing &= (decision & _CATEGORICAL) == 0
    return Tree(
        feature=np.concatenate([_numbers(block, "split_feature", np.int64), np.full(len(leaves), -1)]),
        threshold=threshold,
        left=child("left_child"),
        right=child("right_child"),
        value=value,
        missing_left=np.concatenate([missing, np.ones(len(leaves), dtype=bool)]),
        members=_members(block, decision, threshold),
    )


def _members(block: dict[str, str], decision: np.ndarray, threshold: np.ndarray) -> dict[int, list[int]]:
    """Categories are bits of 32-bit words; the threshold of a categorical split numbers its run of words."""
    bounds, words = _numbers(block, "cat_boundaries", np.int64), _numbers(block, "cat_threshold", np.int64)
    members = {}
    for node in np.flatnonzero(decision & _CATEGORICAL):
        run = words[bounds[int(threshold[node])] : bounds[int(threshold[node]) + 1]]
        members[int(node)] = [
            32 * at + bit for at, word in enumerate(run) for bit in range(32) if (int(word) >> bit) & 1
        ]
    return members
