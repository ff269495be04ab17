"""Ranges that nobody said: assumed where something speaks for them, which is told; asked for elsewhere."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from leakmeter._audit.opening import load_test, open_victim
from leakmeter.errors import UsageError
from leakmeter.models.trees.ensemble import Tree, TreeEnsemble, leaf
from leakmeter.models.trees.thresholds import threshold_box
from leakmeter.oracle.oracle import Oracle
from leakmeter.plan import make_plan
from leakmeter.victims.load import load_victim


class Bright(nn.Module):
    """Two classes: whether a picture is brighter than `line`."""

    input_shape = (1, 16, 16)

    def __init__(self, line: float, outputs: int = 2) -> None:
        super().__init__()
        self.line, self.outputs = line, outputs

    def forward(self, x: Tensor) -> Tensor:
        score = 5 * (x.mean((1, 2, 3)) - self.line)
        return torch.stack([-score, score], 1)


def test_pictures_are_taken_to_be_shares_of_brightness_and_that_is_said() -> None:
    victim = load_victim(Bright(0.5))
    assert (float(victim.spec.low), float(victim.spec.high)) == (0.0, 1.0)
    assert (
        "it was taken to be 0 to 1, what is usual for pictures; if that is wrong, so is this audit" in victim.notes[0]
    )
    assert load_victim(Bright(0.5), low=0.0, high=1.0).notes == ()


def box_of(victim) -> tuple[float, float]:
    return float(victim.spec.low), float(victim.spec.high)


@pytest.mark.parametrize(("line", "box"), [(-0.3, (-1.0, 1.0)), (100.0, (0.0, 255.0))])
def test_the_first_usual_range_is_taken_in_which_pictures_do_not_all_look_alike(line: float, box: tuple) -> None:
    victim = load_victim(Bright(line))
    assert box_of(victim) == box
    said = "the first usual range in which the model tells inputs apart that were drawn by chance; if that is wrong"
    assert f"taken to be {box[0]:g} to {box[1]:g}, {said}" in victim.notes[0]


def test_a_range_is_asked_for_where_all_inputs_get_one_label_in_every_usual_one() -> None:
    said = r"--low=-128 --high=128; .*of 40 inputs drawn in 0 to 1 or -1 to 1 or 0 to 255 all got the same label"
    with pytest.raises(UsageError, match=said):
        load_victim(Bright(1000.0))
    assert load_victim(Bright(1000.0), low=0.0, high=2000.0).notes == ()


@pytest.mark.parametrize("facts", [{"low": 0.0}, {"scale": 1 / 255}, {"dtype": "uint8"}])
def test_nothing_is_assumed_beside_what_was_said(facts: dict) -> None:
    with pytest.raises(UsageError, match="range of the inputs cannot be read off"):
        load_victim(Bright(0.5), **facts)


def test_rows_of_784_are_drawn_as_the_pictures_that_they_are() -> None:
    class Flat(Bright):
        input_shape = (784,)

        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x.reshape(-1, 1, 28, 28))

    assert box_of(load_victim(Flat(0.6))) == (0.0, 1.0)  # which the mean of 784 independent numbers never passes


def split(column: int, threshold: float) -> Tree:
    return Tree(
        np.array([column, -1, -1]),
        np.array([threshold, 0.0, 0.0]),
        np.array([1, 0, 0]),
        np.array([2, 0, 0]),
        np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]),
        np.ones(3, dtype=bool),
    )


def test_the_box_of_trees_reaches_both_sides_of_every_threshold() -> None:
    trees = [split(0, 3.0), split(1, -10.0), split(1, 20.0), split(1, 0.0), leaf([0.0, 0.0])]
    low, high = threshold_box(TreeEnsemble(trees, [0.0, 0.0]), 3)
    np.testing.assert_allclose(low, [2.0, -20.0, 0.0])
    np.testing.assert_allclose(high, [4.0, 30.0, 1.0])


def test_a_file_of_trees_needs_no_range(tmp_path) -> None:
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3)) * [1, 100, 0.01] + [0, 500, 0]
    y = (x[:, 1] > 500).astype(int)
    xgboost.XGBClassifier(n_estimators=5, max_depth=3).fit(x, y).save_model(tmp_path / "m.json")
    assert json.loads((tmp_path / "m.json").read_text())
    victim = load_victim(tmp_path / "m.json")
    assert "column by column around the thresholds of its trees" in victim.notes[0]
    low, high = victim.spec.low, victim.spec.high
    assert 0 < low[1] < 500 < high[1] < 1000
    labels = Oracle(victim, "labels").query(victim.spec.sample(200, torch.Generator().manual_seed(0))).labels
    assert labels.unique().tolist() == [0, 1]
    assert load_victim(tmp_path / "m.json", low=0.0, high=1.0).notes == ()


def test_a_forest_has_a_range_of_its_own_and_a_line_a_usual_one() -> None:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression

    x = np.random.default_rng(0).normal(size=(100, 2))
    assert "thresholds" in load_victim(RandomForestClassifier(5).fit(x, x[:, 0] > 0)).notes[0]
    line = load_victim(LogisticRegression().fit(x, x[:, 0] > 0))
    assert box_of(line) == (-1.0, 1.0)
    assert "tells inputs apart" in line.notes[0]
    with pytest.raises(UsageError, match="-100 to 100 all got the same label"):
        load_victim(LogisticRegression().fit(x + 1000, x[:, 0] > 0))


def test_test_data_that_are_no_pictures_say_the_range_column_by_column(tmp_path) -> None:
    x = np.array([[0.0, 500.0, 7.0], [1.0, 900.0, 7.0]], dtype=np.float32)
    np.savez(tmp_path / "rows.npz", x=x)
    (tmp_path / "own.py").write_text("def line():\n    return lambda x: x[:, :2]\n")
    source, data = {"source": f"{tmp_path}/own.py:line"}, {"name": str(tmp_path / "rows.npz")}
    plan = make_plan({"victim": source, "data": data})
    victim = open_victim(plan, load_test(plan))
    assert (victim.spec.low.tolist(), victim.spec.high.tolist()) == ([0.0, 500.0, 7.0], [1.0, 900.0, 8.0])
    assert "taken to be 0 to 900, that of the test data; if that is wrong, so is this audit" in victim.notes[0]
