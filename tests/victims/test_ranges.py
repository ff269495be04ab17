"""Ranges that nobody said: assumed where something speaks for them, which is told; asked for elsewhere."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from leakmeter.errors import UsageError
from leakmeter.models.trees.ensemble import Tree, TreeEnsemble, leaf
from leakmeter.models.trees.thresholds import threshold_box
from leakmeter.oracle.oracle import Oracle
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


def test_a_range_in_which_all_pictures_are_alike_is_asked_for() -> None:
    with pytest.raises(UsageError, match=r"--low 0 --high 255.*of 40 pictures in 0 to 1, .* all got the same label"):
        load_victim(Bright(100.0))
    assert load_victim(Bright(100.0), low=0.0, high=255.0).notes == ()


@pytest.mark.parametrize(
    "facts",
    [{"low": 0.0}, {"scale": 1 / 255}, {"dtype": "uint8"}, {"input_shape": (256,)}, {"input_shape": (4, 8, 8)}],
)
def test_nothing_is_assumed_of_other_inputs_or_beside_what_was_said(facts: dict) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(256, 2))
    with pytest.raises(UsageError, match="range of the inputs cannot be read off"):
        load_victim(model, **({"input_shape": (1, 16, 16)} | facts))


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


def test_a_forest_needs_no_range_and_a_line_does() -> None:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression

    x = np.random.default_rng(0).normal(size=(100, 2))
    assert "thresholds" in load_victim(RandomForestClassifier(5).fit(x, x[:, 0] > 0)).notes[0]
    with pytest.raises(UsageError, match="pass low and high"):
        load_victim(LogisticRegression().fit(x, x[:, 0] > 0))
