"""Every ensemble read from a library decides as the library does, at the thresholds too, and survives a file."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.tree import DecisionTreeClassifier

from leakmeter.errors import UsageError
from leakmeter.models import make_model
from leakmeter.models.trees.ensemble import Tree, TreeEnsemble, empty_ensemble
from leakmeter.models.trees.from_catboost import from_catboost
from leakmeter.models.trees.from_lightgbm import from_lightgbm
from leakmeter.models.trees.from_sklearn import from_sklearn
from leakmeter.models.trees.from_xgboost import from_xgboost, parse_json
from leakmeter.models.trees.masks import Masks, masks
from leakmeter.models.trees.sound import check_sound


def table(classes: int = 2, n: int = 400, seed: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 5))
    x[:, 3] = rng.integers(0, 6, n)
    score = x[:, 0] + x[:, 1] * x[:, 2] + np.sin(x[:, 3] * 2) + rng.normal(size=n) / 2
    return x, np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))


def at_thresholds(x: NDArray[Any], ensemble: TreeEnsemble) -> NDArray[Any]:
    """Rows with some columns exactly at a threshold, one float below and one above, where < and <= differ."""
    inner = ensemble.feature >= 0
    feature, threshold = ensemble.feature[inner].numpy(), ensemble.threshold[inner].numpy()
    rows = x[np.arange(3 * len(feature)) % len(x)].copy()
    for k in range(len(feature)):
        near = np.float32(threshold[k])
        for shift, value in enumerate(
            (threshold[k], np.nextafter(near, np.float32(-9)), np.nextafter(near, np.float32(9)))
        ):
            rows[3 * k + shift, feature[k]] = value
    return np.concatenate([x, rows])


def probs_of(ensemble: TreeEnsemble, x: NDArray[Any]) -> NDArray[Any]:
    return ensemble(torch.from_numpy(x)).softmax(1).numpy()


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeClassifier(max_depth=5, random_state=0),
        RandomForestClassifier(12, random_state=0),
        GradientBoostingClassifier(n_estimators=12, random_state=0),
        HistGradientBoostingClassifier(max_iter=12, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_scikit_learn_classifiers(model: Any, classes: int) -> None:
    x, y = table(classes)
    model.fit(x, y)
    ensemble = from_sklearn(model)
    rows = at_thresholds(x, ensemble)
    np.testing.assert_allclose(probs_of(ensemble, rows), model.predict_proba(rows), atol=1e-12)


@pytest.mark.parametrize(
    "model",
    [
        ExtraTreesRegressor(8, random_state=0),
        GradientBoostingRegressor(n_estimators=10, random_state=0),
        HistGradientBoostingRegressor(max_iter=10, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_scikit_learn_regressors_keep_their_outputs(model: Any) -> None:
    x, y = table(5)
    model.fit(x, y.astype(float))
    ensemble = from_sklearn(model)
    rows = at_thresholds(x, ensemble)
    np.testing.assert_allclose(ensemble(torch.from_numpy(rows))[:, 0].numpy(), model.predict(rows), atol=1e-9)


def test_missing_values_go_where_they_went() -> None:
    x, y = table()
    x[np.random.default_rng(1).random(x.shape) < 0.2] = np.nan
    for model in (HistGradientBoostingClassifier(max_iter=10), DecisionTreeClassifier(max_depth=6, random_state=0)):
        model.fit(x, y)
        np.testing.assert_allclose(probs_of(from_sklearn(model), x), model.predict_proba(x), atol=1e-12)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("booster", ["gbtree", "dart"])
def test_xgboost_json(classes: int, booster: str) -> None:
    xgboost = pytest.importorskip("xgboost")
    x, y = table(classes)
    x[:40, 1] = np.nan
    model = xgboost.XGBClassifier(n_estimators=12, max_depth=4, booster=booster, n_jobs=1, random_state=0).fit(x, y)
    ensemble = from_xgboost(json.loads(bytes(model.get_booster().save_raw("json"))))
    rows = at_thresholds(x, ensemble)
    np.testing.assert_allclose(probs_of(ensemble, rows), model.predict_proba(rows), atol=1e-5)


def test_xgboost_categories() -> None:
    xgboost, pandas = pytest.importorskip("xgboost"), pytest.importorskip("pandas")
    x, y = table()
    frame = pandas.DataFrame(x[:, :4], columns=list("abcd"))
    frame["d"] = frame["d"].astype(int).astype("category")
    model = xgboost.XGBClassifier(n_estimators=8, enable_categorical=True, max_cat_to_onehot=1, n_jobs=1).fit(frame, y)
    ensemble = from_xgboost(json.loads(bytes(model.get_booster().save_raw("json"))))
    assert len(ensemble.members) > 0
    np.testing.assert_allclose(probs_of(ensemble, x[:, :4]), model.predict_proba(frame), atol=1e-5)


@pytest.mark.parametrize("classes", [2, 3])
def test_lightgbm_text(classes: int) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    x, y = table(classes)
    x[:40, 1] = np.nan
    params = {"objective": "binary"} if classes == 2 else {"objective": "multiclass", "num_class": classes}
    data = lightgbm.Dataset(x, y, categorical_feature=[3])
    model = lightgbm.train({**params, "verbose": -1, "min_data_per_group": 5, "num_threads": 1}, data, 12)
    ensemble = from_lightgbm(model.model_to_string())
    assert len(ensemble.members) > 0
    rows = x
    expected = np.asarray(model.predict(rows))
    expected = np.stack([1 - expected, expected], 1) if classes == 2 else expected
    np.testing.assert_allclose(probs_of(ensemble, rows), expected, atol=1e-12)


def test_lightgbm_at_its_thresholds() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    x, y = table()
    model = lightgbm.LGBMClassifier(n_estimators=12, verbose=-1, n_jobs=1).fit(x, y)
    ensemble = from_lightgbm(model.booster_.model_to_string())
    rows = at_thresholds(x, ensemble)
    np.testing.assert_allclose(probs_of(ensemble, rows)[:, 1], model.booster_.predict(rows), atol=1e-12)


@pytest.mark.parametrize("classes", [2, 3])
def test_catboost_json(classes: int, tmp_path: Any) -> None:
    catboost = pytest.importorskip("catboost")
    x, y = table(classes)
    model = catboost.CatBoostClassifier(
        iterations=12, depth=4, verbose=0, thread_count=1, allow_writing_files=False, random_seed=0
    ).fit(x, y)
    model.save_model(str(tmp_path / "m.json"), format="json")
    ensemble = from_catboost(json.loads((tmp_path / "m.json").read_text()))
    rows = at_thresholds(x, ensemble)
    np.testing.assert_allclose(probs_of(ensemble, rows), model.predict_proba(rows), atol=1e-7)


def test_an_ensemble_is_rebuilt_from_its_state_by_name() -> None:
    x, y = table(3)
    ensemble = from_sklearn(RandomForestClassifier(5, random_state=0).fit(x, y))
    again = make_model("trees", (5,), 3)
    again.load_state_dict(ensemble.state_dict())
    assert torch.equal(again(torch.from_numpy(x)), ensemble(torch.from_numpy(x)))


def test_regressors_and_strange_files_are_told_in_a_sentence() -> None:
    with pytest.raises(UsageError, match="made of trees"):
        from_sklearn(object())
    with pytest.raises(UsageError, match="without 'learner'"):
        from_xgboost({})
    with pytest.raises(UsageError, match="XGBoost model as JSON"):
        parse_json(b"tree\nversion=v4", "m.json")
    with pytest.raises(UsageError, match="LightGBM model as text"):
        from_lightgbm("hello")
    with pytest.raises(UsageError, match="objective 'regression'"):
        from_lightgbm("num_tree_per_iteration=1\nobjective=regression\nTree=0\n")


@pytest.mark.parametrize("strict", [False, True])
def test_tables_of_words_end_where_steps_do(strict: bool) -> None:
    """Tables for columns against walking split by split, at and beside thresholds and with missing values."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 12, size=(400, 4)).astype(float)
    x[rng.random(x.shape) < 0.1] = np.nan
    model = RandomForestClassifier(20, max_leaf_nodes=60, random_state=0).fit(x, rng.integers(0, 2, 400))
    state = from_sklearn(model).state_dict()
    state["semantics"] = torch.tensor([int(strict), 1, 2])
    state["threshold"] = state["threshold"].round()  # so that rows lie on thresholds
    ensemble = empty_ensemble((4,), 2)
    ensemble.load_state_dict(state)
    rows = torch.from_numpy(x).double()
    walked = torch.cat([ensemble.leaves(piece) for piece in rows.split(50)])  # too few rows at a time for tables
    assert isinstance(masks(state, strict), Masks)
    assert torch.equal(ensemble.leaves(rows), walked)


def test_large_trees_and_shared_branches_are_walked() -> None:
    x = np.random.default_rng(0).normal(size=(500, 2))
    deep = from_sklearn(RandomForestClassifier(2, random_state=0).fit(x, np.arange(500) % 2))
    assert masks(deep.state_dict(), False) is None
    shared = Tree(
        np.array([0, 0, 1, -1, -1]),
        np.zeros(5),
        np.array([1, 2, 3, 3, 4]),
        np.array([2, 4, 4, 3, 4]),
        np.eye(5)[:, :2],
        np.ones(5, dtype=bool),
    )
    assert masks(TreeEnsemble([shared], [0.0, 0.0]).state_dict(), False) is None


DAMAGES = {
    "two parents": {"left": 0},  # a circle
    "leads outside": {"right": 99},
    "a column beyond": {"feature": 7},
    "at categories": {"category": 3},
}


@pytest.mark.parametrize("sentence", DAMAGES)
def test_an_ensemble_that_cannot_be_walked_is_told(sentence: str) -> None:
    arrays = {"left": np.array([1, 1, 2]), "right": np.array([2, 1, 2])}
    whole = Tree(
        np.array([0, -1, -1]), np.zeros(3), **arrays, value=np.ones((3, 2)), missing_left=np.ones(3, dtype=bool)
    )
    ensemble = TreeEnsemble([whole], [0.0, 0.0])
    check_sound(ensemble, 4)
    for name, value in DAMAGES[sentence].items():
        getattr(ensemble, name)[0] = value
    with pytest.raises(ValueError, match=sentence):
        check_sound(ensemble, 4)
