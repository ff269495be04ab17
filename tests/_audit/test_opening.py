"""Test data and victim fit each other: ranges, parts and labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from leakmeter._audit.defaults import complete
from leakmeter._audit.flow import audit, preview
from leakmeter._audit.opening import fit_test, load_test, open_victim
from leakmeter._audit.opening import test_inputs as inputs_to_test
from leakmeter.errors import Inconclusive, UsageError
from leakmeter.evaluation.score import Reference, reference
from leakmeter.extraction.pool import real_inputs
from leakmeter.oracle.oracle import Oracle
from leakmeter.plan import make_plan
from leakmeter.verdict import judge
from leakmeter.victims.load import load_victim

RNG = np.random.default_rng(0)
LINEAR = """
import numpy as np
W = np.random.default_rng(0).normal(size=({features}, 3))
def make():
    def scores(x):
        return x.reshape(len(x), -1) @ W
    return scores
"""


def plan(folder: Path, arrays: dict[str, np.ndarray], **victim: Any):
    np.savez(folder / "own.npz", **arrays)
    features = int(np.prod(next(iter(arrays.values())).shape[1:]))
    (folder / "own.py").write_text(LINEAR.format(features=features))
    return {
        "victim": {"source": f"{folder}/own.py:make", "outputs": "logits", **victim},
        "data": {"name": str(folder / "own.npz")},
    }


def test_pixels_are_stretched_to_the_range_the_model_takes(tmp_path) -> None:
    pixels = RNG.integers(0, 256, (20, 8, 8), dtype=np.uint8)
    made = make_plan(plan(tmp_path, {"x": pixels}, low=-1.0, high=1.0))
    test = load_test(made)
    x = fit_test(test, open_victim(made, test)).x
    np.testing.assert_allclose(x[:, 0], pixels / 255 * 2 - 1, atol=1e-6)


def test_floats_beyond_one_need_the_range_and_then_stay_as_they_are(tmp_path) -> None:
    floats = RNG.uniform(-1, 1, (20, 8, 8)).astype(np.float32)
    content = plan(tmp_path, {"x": floats})
    with pytest.raises(UsageError, match=r"say which range the model takes, for example low=-1, high=1 \(--low=-1"):
        load_test(make_plan(content))
    made = make_plan(content | {"victim": content["victim"] | {"low": -1.0, "high": 1.0}})
    test = load_test(made)
    np.testing.assert_array_equal(fit_test(test, open_victim(made, test)).x[:, 0], floats)


def test_a_file_is_parted_only_where_an_arm_learns_from_it(tmp_path) -> None:
    arrays = {"x": RNG.random((20, 4)).astype(np.float32), "y": RNG.integers(0, 3, 20)}
    content = plan(tmp_path, arrays, low=0.0, high=1.0)
    assert len(load_test(make_plan(content))) == 4
    alone = content | {"attacks": [{"name": "surrogate"}]}
    assert len(load_test(make_plan(alone))) == 20
    pool = {"name": "surrogate", "control": True, "pool": content["data"]["name"]}
    assert len(load_test(make_plan(content | {"attacks": [pool]}))) == 4


@pytest.mark.parametrize("quick", [True, False])
def test_whoever_runs_a_cell_reads_the_same_rows_as_who_planned_it(tmp_path, quick: bool) -> None:
    arrays = {"x": RNG.random((40, 4)).astype(np.float32), "y": RNG.integers(0, 3, 40)}
    made = make_plan(plan(tmp_path, arrays, low=0.0, high=1.0) | {"quick": quick})
    test = load_test(made)
    filled = complete(made, open_victim(made, test), test)
    assert torch.equal(load_test(filled).x, test.x)
    assert len(test) == (40 if quick else 8), "of a quick audit no arm learns from the file"


def test_test_data_that_changed_since_are_noticed(tmp_path) -> None:
    made = make_plan(plan(tmp_path, {"x": RNG.random((40, 4)).astype(np.float32)}, low=0.0, high=1.0))
    test = load_test(made)
    victim = open_victim(made, test)
    reference(victim, test).save(tmp_path / "truth")
    with pytest.raises(Inconclusive, match="answered 40 test inputs and own now holds 3"):
        Reference.load(tmp_path / "truth", test.rows(torch.arange(3)), victim.spec)


def test_an_open_range_admits_pictures_of_any(tmp_path) -> None:
    floats = RNG.normal(size=(20, 8, 8)).astype(np.float32)
    made = make_plan(plan(tmp_path, {"x": floats}, low=-np.inf, high=np.inf))
    test = load_test(made)
    victim = open_victim(made, test)
    assert victim.spec.low is None
    np.testing.assert_array_equal(fit_test(test, victim).x[:, 0], floats)
    assert torch.equal(real_inputs(made.data.name, None, victim.spec), test.x)


def test_a_range_that_nobody_says_is_that_of_the_data(tmp_path) -> None:
    made = make_plan(plan(tmp_path, {"x": np.array([[0.5, -2.0], [4.0, 30.0]], np.float32)}))
    spec = open_victim(made, load_test(made)).spec
    assert (spec.low.tolist(), spec.high.tolist()) == ([0.5, -2.0], [4.0, 30.0])


def test_without_labels_fidelity_is_measured_and_no_arm_learns_from_the_test_data(tmp_path) -> None:
    content = plan(tmp_path, {"x": RNG.random((40, 4)).astype(np.float32)}, low=0.0, high=1.0)
    quick = {"budget": 60, "stops": [60], "seeds": [0], "views": ["labels"], "detectors": []}
    attack = {"name": "surrogate", "recipe": {"steps": 60, "lr": 0.01}}
    result = audit(content | quick | {"attacks": [attack]}, out=tmp_path / "runs")
    (cell,) = result.cells
    assert cell.final.score.n == 40
    assert cell.final.score.accuracy is None
    assert cell.final.score.fidelity > 0.3
    made = make_plan(content)
    test = load_test(made)
    filled = complete(made, open_victim(made, test), test)
    assert filled.attacks
    assert not any(attack.options.get("pool") for attack in filled.attacks)


def test_an_assumed_range_and_names_of_folders_are_in_the_result(tmp_path) -> None:
    from PIL import Image

    for name in ("cat", "dog", "owl"):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        for k in range(4):
            pixels = RNG.integers(0, 256, (8, 8), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "pictures" / name / f"{k}.png")
    content = plan(tmp_path, {"x": np.zeros((2, 8, 8), np.uint8)}) | {"data": {"name": str(tmp_path / "pictures")}}
    quick = {"budget": 40, "stops": [40], "seeds": [0], "views": ["labels"], "detectors": []}
    attack = {"name": "surrogate", "student": "mlp", "recipe": {"steps": 5, "lr": 0.01}}
    result = audit(content | quick | {"attacks": [attack]}, out=tmp_path / "runs")
    assert result.victim.class_names == ["cat", "dog", "owl"]
    assert "taken to be 0 to 1, that of the test data" in result.verdict.sentences[-1]
    assert "taken to be 0 to 1" in (result.folder / "report.html").read_text()


def test_edges_by_column_in_a_plan() -> None:
    made = make_plan({"victim": {"source": "a:b", "low": [0, -1], "high": [1, 5.5]}})
    assert made.victim.keywords()["low"] == (0.0, -1.0)
    torch.testing.assert_close(torch.tensor(made.victim.keywords()["high"]), torch.tensor((1.0, 5.5)))


def test_columns_read_off_the_data_are_told_and_declared_ones_are_not(tmp_path) -> None:
    pytest.importorskip("polars")
    rows = [f"{k},{k % 3},{k % 5},{k % 7},{k % 2}" for k in range(20)]
    (tmp_path / "rows.csv").write_text("\n".join(["a,b,c,d,y", *rows, ""]))
    content = plan(tmp_path, {"x": np.zeros((2, 4), np.float32)})
    content["data"] = {"name": str(tmp_path / "rows.csv"), "target": "y"}
    made = make_plan(content)
    test = load_test(made)
    victim = open_victim(made, test)
    assert any("read off rows.csv" in note for note in victim.notes)
    declared = make_plan(content | {"columns": test.columns.section()})
    assert not open_victim(declared, load_test(declared)).notes


def test_without_test_data_copies_are_scored_on_drawn_inputs_which_decide_no_policy(tmp_path) -> None:
    (tmp_path / "own.py").write_text(
        "import numpy as np\n\ndef model():\n    return lambda x: np.stack([x[:, 0], 1 - x[:, 0]], 1)\n"
    )
    victim = {"source": f"{tmp_path / 'own.py'}:model", "input_shape": [3], "low": 0.0, "high": 1.0}
    attack = {"name": "surrogate", "student": "linear", "recipe": {"steps": 200, "lr": 0.05}}
    quick = {"budget": 200, "stops": [200], "seeds": [0], "views": ["probs"], "detectors": []}
    plan = {"victim": victim, "attacks": [attack], **quick}
    assert "scored on inputs drawn by chance" in preview(plan).lines()[-1]
    result = audit(plan, out=tmp_path / "runs")
    assert (result.cells[0].final.score.n, result.victim.test) == (1000, "inputs drawn by chance")
    assert "of inputs drawn by chance" in result.verdict.headline
    assert any(line.startswith("There were no test data") for line in result.verdict.sentences)
    assert (result.verdict.outcome, result.exit_code) == ("measured", 0)
    for value in (0.1, 0.999):  # neither surely above nor surely below: nobody knows on real inputs
        limit = {"max_fidelity": {"queries": 200, "value": value}}
        judged = judge(make_plan(plan | {"policy": limit}), result.cells)
        assert judged.outcome == "undecided"
        assert "there were no test data" in judged.rulings[0].message
        assert judged.recommendation is None


@pytest.mark.parametrize("shape", [(3,), (16, 96), (3, 20, 24), (2, 3, 4, 5), (3, 300, 300)])
def test_drawn_inputs_are_in_the_box_and_few_where_they_are_large(shape: tuple[int, ...]) -> None:
    def model(x: np.ndarray) -> np.ndarray:
        return np.stack([x.reshape(len(x), -1).mean(1), np.full(len(x), 0.3)], 1)

    low, high = np.float64(0.1), np.float64(0.7)
    victim = load_victim(model, input_shape=shape, low=low, high=high, outputs="logits")
    test = inputs_to_test(make_plan({"victim": {"source": "own:model"}}), None, victim)
    assert len(test) == (120 if shape == (3, 300, 300) else 1000)
    assert torch.equal(test.x, inputs_to_test(make_plan({"victim": {"source": "own:model"}}), None, victim).x)
    labels = Oracle(victim, "labels").query(test.x).labels
    assert labels.unique().tolist() == ([0, 1] if len(shape) == 3 or shape == (3,) else [0])
