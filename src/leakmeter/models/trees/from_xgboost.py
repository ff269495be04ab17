"""XGBoost's own files, `.json` and `.ubj`, as a `TreeEnsemble`; reading one runs no code and needs no xgboost."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from leakmeter.errors import UsageError
from leakmeter.files import check_announced
from leakmeter.models.trees.ensemble import Tree, TreeEnsemble

_TWO, _MANY = ("binary:logistic", "binary:logitraw"), ("multi:softprob", "multi:softmax")


def from_xgboost(document: dict[str, Any], source: str = "the XGBoost model") -> TreeEnsemble:
    """The model a file of `Booster.save_model` holds: x is rounded to float32, and x < threshold goes left."""
    try:
        learner = document["learner"]
        objective = learner["objective"]["name"]
        booster = learner["gradient_booster"]
    except (KeyError, TypeError) as error:
        raise UsageError(f"expected an XGBoost model in {source}, got a file without {error}") from error
    if objective not in _TWO + _MANY:
        raise UsageError(
            f"expected an XGBoost classifier ({', '.join(_TWO + _MANY)}) in {source}, got the objective '{objective}'; "
            "leakmeter measures copies of classifiers"
        )
    weights = [1.0]
    if "weight_drop" in booster:
        booster, weights = booster["gbtree"], booster["weight_drop"]
    if "model" not in booster or "trees" not in booster["model"]:
        raise UsageError(f"expected an XGBoost model of trees in {source}, got the booster '{booster.get('name')}'")
    model, outputs = booster["model"], _outputs(learner, objective)
    check_announced(source, 8 * outputs * sum(len(tree["left_children"]) for tree in model["trees"]))
    weights = weights if len(weights) == len(model["trees"]) else weights * len(model["trees"])
    trees = [
        _tree(tree, group, outputs, weight)
        for tree, group, weight in zip(model["trees"], model["tree_info"], weights, strict=True)
    ]
    link = "score" if objective in _TWO else "scores"
    return TreeEnsemble(trees, _base(learner, objective, outputs), link=link, strict=True, single=True)  # type: ignore[arg-type]


def parse_json(raw: bytes, source: str) -> dict[str, Any]:
    """The document in a `.json` file."""
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"expected an XGBoost model as JSON in {source}, got {error}") from error
    if not isinstance(document, dict):
        raise UsageError(f"expected an XGBoost model as JSON in {source}, got a {type(document).__name__}")
    return document


def feature_names(document: dict[str, Any]) -> list[str] | None:
    """The columns the model was trained on, where it says them."""
    return document.get("learner", {}).get("feature_names") or None


def features(document: dict[str, Any]) -> int:
    """How many columns the model takes."""
    return int(document["learner"]["learner_model_param"]["num_feature"])


def _outputs(learner: dict[str, Any], objective: str) -> int:
    return 1 if objective in _TWO else int(learner["learner_model_param"]["num_class"])


def _base(learner: dict[str, Any], objective: str, outputs: int) -> list[float]:
    """The start of the sum: the file holds a probability for two classes (a list since version 3), scores for more."""
    text = str(learner["learner_model_param"]["base_score"]).strip("[]")
    starts = [float(part) for part in text.split(",")]
    if objective == "binary:logistic":
        starts = [math.log(p / (1 - p)) for p in starts]
    return starts if len(starts) == outputs else starts * outputs


def _tree(tree: dict[str, Any], group: int, outputs: int, weight: float) -> Tree:
    left = np.asarray(tree["left_children"], dtype=np.int64)
    right = np.asarray(tree["right_children"], dtype=np.int64)
    is_leaf, nodes = left < 0, np.arange(len(left))
    conditions = np.asarray(tree["split_conditions"], dtype=np.float32).astype(float)
    value = np.zeros((len(left), outputs))
    value[is_leaf, group] = conditions[is_leaf] * weight
    if len(np.asarray(tree.get("base_weights", []))) > len(left):
        raise UsageError("expected an XGBoost model with one output a tree, got vector leaves (multi_strategy)")
    members = _members(tree)
    default_left = np.asarray(tree["default_left"], dtype=bool)
    for node in members:  # a category of the set goes right; here the sets go left
        left[node], right[node] = right[node], left[node]
        default_left[node] = not default_left[node]
    return Tree(
        feature=np.where(is_leaf, -1, np.asarray(tree["split_indices"], dtype=np.int64)),
        threshold=np.where(is_leaf, 0.0, conditions),
        left=np.where(is_leaf, nodes, left),
        right=np.where(is_leaf, nodes, right),
        value=value,
        missing_left=default_left,
        members=members,
    )


def _members(tree: dict[str, Any]) -> dict[int, list[int]]:
    categories = [int(code) for code in tree.get("categories", [])]
    places = zip(
        tree.get("categories_nodes", []),
        tree.get("categories_segments", []),
        tree.get("categories_sizes", []),
        strict=True,
    )
    return {int(node): categories[int(start) : int(start) + int(size)] for node, start, size in places}
