"""Models of tables as victims: files without pickles, data frames, one probability, and what is told of the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeRegressor

import leakmeter as lm
from leakmeter.data.columns import Column, Columns
from leakmeter.errors import UsageError
from leakmeter.victims.column_names import column_names
from leakmeter.victims.remote.victim import _conform

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
Y = (X[:, 0] * X[:, 1] > 0.1).astype(int)
BOX = {"low": -4.0, "high": 4.0}


def answers(victim: Any, x: NDArray[Any] = X) -> NDArray[Any]:
    inside = torch.from_numpy(x).clamp(-4, 4)
    return lm.Oracle(victim, view="probs").query(inside).probs.numpy()


@pytest.mark.parametrize("suffix", ["json", "ubj"])
@pytest.mark.parametrize("classes", [2, 3])
def test_xgboost_files(tmp_path: Path, suffix: str, classes: int) -> None:
    xgboost = pytest.importorskip("xgboost")
    model = xgboost.XGBClassifier(n_estimators=5, n_jobs=1).fit(X, Y + (X[:, 2] > 1) * (classes - 2))
    model.save_model(tmp_path / f"m.{suffix}")
    victim = lm.load_victim(str(tmp_path / f"m.{suffix}"), **BOX)
    assert victim.spec.classes == classes
    np.testing.assert_allclose(answers(victim), model.predict_proba(X), atol=1e-6)


def test_lightgbm_and_catboost_files(tmp_path: Path) -> None:
    lightgbm, catboost = pytest.importorskip("lightgbm"), pytest.importorskip("catboost")
    light = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1).fit(X, Y)
    light.booster_.save_model(tmp_path / "m.txt")
    np.testing.assert_allclose(
        answers(lm.load_victim(str(tmp_path / "m.txt"), **BOX))[:, 1], light.booster_.predict(X), atol=1e-9
    )
    for columns in (2, 5):  # the test data of another model
        with pytest.raises(UsageError, match=rf"expected inputs of shape \(3,\).*, got \({columns},\)"):
            lm.load_victim(str(tmp_path / "m.txt"), input_shape=(columns,), **BOX)
    cat = catboost.CatBoostClassifier(iterations=5, verbose=0, allow_writing_files=False, thread_count=1).fit(X, Y)
    cat.save_model(str(tmp_path / "m.cbm"))
    victim = lm.load_victim(str(tmp_path / "m.cbm"), **BOX)
    np.testing.assert_allclose(answers(victim), cat.predict_proba(X), atol=1e-6)


def test_regressors_and_broken_files_are_told(tmp_path: Path) -> None:
    xgboost, catboost = pytest.importorskip("xgboost"), pytest.importorskip("catboost")
    xgboost.XGBRegressor(n_estimators=2).fit(X, X[:, 0]).save_model(tmp_path / "r.json")
    catboost.CatBoostRegressor(iterations=2, verbose=0, allow_writing_files=False).fit(X, X[:, 0]).save_model(
        str(tmp_path / "r.cbm")
    )
    (tmp_path / "b.json").write_text('{"learner": {"objective": {"name": "binary:logistic"}, "gradient_booster": {}}}')
    (tmp_path / "b.ubj").write_bytes(b"{i\x05hello")
    (tmp_path / "b.txt").write_text("notes")
    (tmp_path / "b.cbm").write_text("notes")
    for name in ("r.json", "r.cbm", "b.json", "b.ubj", "b.txt", "b.cbm"):
        with pytest.raises(UsageError) as caught:
            lm.load_victim(str(tmp_path / name), **BOX)
        assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match="DecisionTreeRegressor, which knows no classes"):
        lm.load_victim(DecisionTreeRegressor().fit(X, X[:, 0]), **BOX)


def test_skops_files(tmp_path: Path) -> None:
    io = pytest.importorskip("skops.io")
    forest = RandomForestClassifier(3, random_state=0).fit(X, Y)
    io.dump(forest, tmp_path / "m.skops")
    np.testing.assert_allclose(answers(lm.load_victim(str(tmp_path / "m.skops"), **BOX)), forest.predict_proba(X))
    forest.strange = Strange()
    io.dump(forest, tmp_path / "s.skops")
    with pytest.raises(UsageError, match="Strange"):
        lm.load_victim(str(tmp_path / "s.skops"), **BOX)


def test_a_skops_file_may_fill_in_what_is_missing(tmp_path: Path) -> None:
    io = pytest.importorskip("skops.io")
    model = make_pipeline(SimpleImputer(), LogisticRegression()).fit(np.where(X > 0.9, np.nan, X), Y)
    io.dump(model, tmp_path / "m.skops")
    np.testing.assert_allclose(answers(lm.load_victim(str(tmp_path / "m.skops"), **BOX)), model.predict_proba(X))


class Strange:
    """A type nobody vouches for."""


def test_one_probability_is_two_classes() -> None:
    def p(x: NDArray[Any]) -> NDArray[Any]:
        return 1 / (1 + np.exp(-x[:, 0]))

    for function in (p, lambda x: p(x)[:, None]):
        victim = lm.load_victim(function, input_shape=(3,), **BOX)
        assert (victim.spec.classes, victim.spec.outputs) == (2, "probs")
        shown = answers(victim, X.astype(np.float32))
        np.testing.assert_allclose(shown[:, 1], p(X), atol=1e-6)
        np.testing.assert_allclose(shown.sum(1), 1, atol=1e-6)
    network = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Sigmoid())
    assert lm.load_victim(network, input_shape=(3,), **BOX).spec.classes == 2
    spec = lm.load_victim(p, input_shape=(3,), **BOX).spec
    np.testing.assert_allclose(_conform(np.array([0.25]), 1, spec), [[0.75, 0.25]])
    with pytest.raises(UsageError, match="no probability"):
        lm.load_victim(lambda x: x[:, 0] * 5, input_shape=(3,), **BOX)


def test_a_label_may_be_a_word() -> None:
    def said(x: NDArray[Any]) -> NDArray[Any]:
        return np.where(x[:, 0] > 0, "yes", "no")

    victim = lm.load_victim(said, input_shape=(3,), classes=["no", "yes"], **BOX)
    assert (victim.spec.outputs, victim.spec.class_names) == ("labels", ("no", "yes"))
    rows = torch.from_numpy(X).clamp(-4, 4).float()
    assert torch.equal(lm.Oracle(victim, view="labels").query(rows).labels, (rows[:, 0] > 0).long())
    for names in (None, ["no", "maybe"]):
        with pytest.raises(UsageError, match=r"expected .* as answers, got the word '(no|yes)'; pass the names"):
            lm.load_victim(said, input_shape=(3,), classes=names, **BOX)


def test_a_pipeline_on_a_data_frame_gets_one() -> None:
    pandas = pytest.importorskip("pandas")
    columns = Columns(
        [
            Column(name="Age", kind="integer", low=18, high=90),
            Column(name="City", kind="categorical", levels=("Bonn", "Kiel", "Ulm")),
            Column(name="Income", low=0, high=9000),
        ]
    )
    n = 200
    frame = pandas.DataFrame(
        {
            "City": RNG.choice(["Bonn", "Kiel", "Ulm"], n),
            "Age": RNG.integers(18, 91, n),
            "Income": RNG.random(n) * 9000,
        }
    )
    label = np.where((frame["City"] == "Ulm") | (frame["Age"] > 60), "yes", "no")
    encode = make_column_transformer((OneHotEncoder(), ["City"]), remainder="passthrough")
    model = make_pipeline(encode, LogisticRegression(max_iter=500)).fit(frame, label)
    victim = lm.load_victim(model, columns=columns)
    codes = frame["City"].map({"Bonn": 0, "Kiel": 1, "Ulm": 2})
    rows = torch.tensor(np.stack([frame["Age"], codes, frame["Income"]], 1), dtype=torch.float64)
    got = lm.Oracle(victim).query(rows).probs.numpy()
    np.testing.assert_allclose(got, model.predict_proba(frame), atol=1e-12)
    with pytest.raises(UsageError, match=r"'Age', got 3\.5 in row 1"):
        lm.Oracle(victim).query(torch.tensor([[3.5, 0, 1]], dtype=torch.float64))
    with pytest.raises(UsageError, match="fitted on, City, Age, Income, got a difference at 'Town'"):
        lm.load_victim(model, columns=Columns([*columns[:1], *columns[2:], Column(name="Town", low=0, high=1)]))


def test_the_names_of_a_models_columns(tmp_path: Path) -> None:
    xgboost, pandas = pytest.importorskip("xgboost"), pytest.importorskip("pandas")
    model = xgboost.XGBClassifier(n_estimators=2).fit(pandas.DataFrame(X, columns=["a", "b", "c"]), Y)
    model.save_model(tmp_path / "m.json")
    assert column_names(str(tmp_path / "m.json")) == ["a", "b", "c"]
    assert column_names("package.module:factory") is None
    skops = pytest.importorskip("skops.io")
    forest = RandomForestClassifier(2).fit(pandas.DataFrame(X, columns=["a", "b", "c"]), Y)
    skops.dump(forest, tmp_path / "m.skops")
    assert column_names(str(tmp_path / "m.skops")) == ["a", "b", "c"]


def test_a_catboost_file_with_categories_is_given_words(tmp_path: Path) -> None:
    catboost, pandas = pytest.importorskip("catboost"), pytest.importorskip("pandas")
    frame = pandas.DataFrame({"City": ["Bonn", "Kiel", "Ulm"] * 40, "Age": np.arange(120) % 47})
    label = np.where((frame["City"] == "Ulm") | (frame["Age"] > 30), "yes", "no")
    model = catboost.CatBoostClassifier(
        iterations=5, depth=3, verbose=0, cat_features=["City"], train_dir=str(tmp_path)
    )
    model.fit(frame, label).save_model(str(tmp_path / "m.cbm"))
    columns = Columns(
        [
            Column(name="City", kind="categorical", levels=("Bonn", "Kiel", "Ulm")),
            Column(name="Age", kind="integer", low=0, high=46),
        ]
    )
    victim = lm.load_victim(str(tmp_path / "m.cbm"), columns=columns)
    rows = torch.tensor(np.stack([frame["City"].map({"Bonn": 0, "Kiel": 1, "Ulm": 2}), frame["Age"]], 1)).double()
    got = lm.Oracle(victim).query(rows).probs.numpy()
    np.testing.assert_allclose(got, model.predict_proba(frame), atol=1e-12)
    assert column_names(str(tmp_path / "m.cbm")) == ["City", "Age"]
