"""scikit-learn's trees, forests and boosted trees as a `TreeEnsemble`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakmeter.errors import UsageError
from leakmeter.models.trees.ensemble import Tree, TreeEnsemble


def from_sklearn(model: Any) -> TreeEnsemble:
    """A fitted tree, forest, extra trees, gradient boosting or histogram gradient boosting, classifier or regressor.

    A classifier becomes its log-probabilities or its log-odds, a regressor of one or several outputs its outputs.
    """
    if hasattr(model, "_predictors"):
        return _histograms(model)
    if hasattr(model, "init_"):
        return _boosted(model)
    if hasattr(model, "tree_"):
        return _averaged([model.tree_], hasattr(model, "classes_"))
    if hasattr(model, "estimators_") and all(hasattr(each, "tree_") for each in np.ravel(model.estimators_)):
        return _averaged([each.tree_ for each in model.estimators_], hasattr(model, "classes_"))
    raise UsageError(f"expected a fitted scikit-learn model made of trees, got {type(model).__name__}")


def _averaged(trees: Iterable[Any], classifies: bool) -> TreeEnsemble:
    made = [_tree(tree, _outputs(tree, classifies)) for tree in trees]
    share = [Tree(t.feature, t.threshold, t.left, t.right, t.value / len(made), t.missing_left) for t in made]
    link = "probs" if classifies else "scores"
    return TreeEnsemble(share, [0.0] * made[0].value.shape[1], link=link, single=True)  # type: ignore[arg-type]


def _outputs(tree: Any, classifies: bool) -> NDArray[np.float64]:
    value = np.asarray(tree.value, dtype=float)
    if not classifies:
        return value[:, :, 0]
    counts = value[:, 0, :]  # fractions since 1.3, weighted counts before
    return np.asarray(counts / counts.sum(1, keepdims=True))


def _tree(tree: Any, value: NDArray[np.float64]) -> Tree:
    is_leaf = tree.children_left < 0
    nodes = np.arange(tree.node_count)
    return Tree(
        feature=np.where(is_leaf, -1, tree.feature),
        threshold=tree.threshold,
        left=np.where(is_leaf, nodes, tree.children_left),
        right=np.where(is_leaf, nodes, tree.children_right),
        value=value,
        missing_left=np.asarray(tree.missing_go_to_left, dtype=bool),
    )


def _boosted(model: Any) -> TreeEnsemble:
    """GradientBoosting: one tree a round, or one a class; the start is the prior's log-odds, or the mean."""
    estimators = np.asarray(model.estimators_, dtype=object)
    width = estimators.shape[1]
    trees = []
    for row in estimators:
        for k, each in enumerate(row):
            value = np.zeros((each.tree_.node_count, width))
            value[:, k] = each.tree_.value[:, 0, 0] * model.learning_rate
            trees.append(_tree(each.tree_, value))
    if model.init_ == "zero":
        base = np.zeros(width)
    else:
        base = model._raw_predict_init(np.zeros((1, model.n_features_in_), dtype=np.float32))[0]
    one = hasattr(model, "classes_") and width == 1
    return TreeEnsemble(trees, list(map(float, base)), link="score" if one else "scores", single=True)


def _histograms(model: Any) -> TreeEnsemble:
    if getattr(model, "_preprocessor", None) is not None:
        raise UsageError(
            "expected histogram boosting on plain numbers, got one with categorical columns of its own; "
            "give the estimator itself as the victim"
        )
    width = len(model._predictors[0])
    trees = [_histogram_tree(each, k, width) for row in model._predictors for k, each in enumerate(row)]
    base = np.ravel(model._baseline_prediction)
    one = hasattr(model, "classes_") and width == 1
    return TreeEnsemble(trees, list(map(float, base)), link="score" if one else "scores")


def _histogram_tree(predictor: Any, k: int, width: int) -> Tree:
    nodes = predictor.nodes
    is_leaf, here = nodes["is_leaf"].astype(bool), np.arange(len(nodes))
    value = np.zeros((len(nodes), width))
    value[:, k] = nodes["value"]
    return Tree(
        feature=np.where(is_leaf, -1, nodes["feature_idx"]),
        threshold=nodes["num_threshold"],
        left=np.where(is_leaf, here, nodes["left"]),
        right=np.where(is_leaf, here, nodes["right"]),
        value=value,
        missing_left=nodes["missing_go_to_left"].astype(bool),
    )
