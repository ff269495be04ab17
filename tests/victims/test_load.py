"""Every kind of victim answers what it should by itself, and what is wrong with one is said in one sentence."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from torch import Tensor, nn

from leakmeter.errors import UsageError
from leakmeter.oracle.oracle import Oracle
from leakmeter.victims.load import load_victim

BOX = {"low": 0.0, "high": 1.0}


@pytest.fixture
def x() -> Tensor:
    return torch.rand(7, 3, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """A current folder of its own; what is imported from it is forgotten again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def small_net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 4)).eval()


def test_a_module_is_read_off(x: Tensor) -> None:
    net = small_net().train()
    victim = load_victim(net, **BOX)
    spec = victim.spec
    assert (spec.input_shape, spec.classes, spec.outputs, spec.dtype) == ((3,), 4, "logits", torch.float32)
    assert not net.training
    assert victim.white_box is net
    with torch.no_grad():
        torch.testing.assert_close(Oracle(victim, "logits").query(x).logits, net(x))


def test_a_module_may_say_everything_itself(x: Tensor) -> None:
    net = small_net()
    net.input_shape, net.low, net.high, net.name = (3,), 0.0, None, "shop"
    spec = load_victim(net).spec
    assert (spec.name, float(spec.low), spec.high) == ("shop", 0.0, None)
    assert load_victim(net, high=2.0, name="mine").spec.name == "mine"


def test_attributes_that_mean_something_else_are_not_taken_for_facts() -> None:
    net = small_net()
    net.classes, net.outputs, net.name = ["cat", "dog", "owl", "cow"], ["a", "b"], lambda: "x"
    spec = load_victim(net, **BOX).spec
    assert (spec.classes, spec.outputs, spec.name) == (4, "logits", "Sequential")


def test_probabilities_are_recognised_and_logits_are_the_default() -> None:
    assert load_victim(nn.Sequential(small_net(), nn.Softmax(1)), input_shape=(3,), **BOX).spec.outputs == "probs"
    assert load_victim(lambda x: x - 0.5, input_shape=(3,), **BOX).spec.outputs == "logits"


def test_a_factory_from_the_current_folder(here: Path, x: Tensor) -> None:
    (here / "shop_x").mkdir()
    (here / "shop_x" / "models.py").write_text(
        "from torch import nn\nimport torch\n"
        "def net():\n    torch.manual_seed(3)\n    return nn.Linear(3, 2)\n"
        "ready = net()\nnumber = 3\n"
        "def broken():\n    raise KeyError('weights')\n"
        "def quits():\n    raise SystemExit(0)\n"
        "def scores(x, y, *rest, z=1):\n    return x\n"
    )
    made, ready = (load_victim(f"shop_x.models:{name}", **BOX) for name in ("net", "ready"))
    assert made.spec.name == "shop_x.models:net"
    assert torch.equal(Oracle(made, "logits").query(x).logits, Oracle(ready, "logits").query(x).logits)
    for name, sentence in {
        "nett": "'shop_x.models' has no 'nett'; did you mean 'net'",
        "number": "expected 'shop_x.models:number' to be a function that returns the victim, got int",
        "broken": "the factory 'shop_x.models:broken' raised KeyError: 'weights'",
        "quits": "the factory 'shop_x.models:quits' raised SystemExit: 0",
        "scores": r"got one that wants x, y; if it is the model itself, .* `def model\(\): return scores`",
    }.items():
        with pytest.raises(UsageError, match=sentence):
            load_victim(f"shop_x.models:{name}", **BOX)


def test_a_factory_from_a_file_leaves_other_modules_alone(here: Path) -> None:
    import json

    (here / "json.py").write_text("from torch import nn\ndef make():\n    return nn.Linear(3, 2)\n")
    assert load_victim(str(here / "json.py") + ":make", **BOX).spec.classes == 2
    assert sys.modules["json"] is json


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("import sys\nsys.exit(0)", "importing '.*' raised SystemExit: 0"),
        ("1 / 0", "importing '.*' raised ZeroDivisionError"),
        ("def f(:", "importing '.*' raised SyntaxError"),
        ("import nowhere_to_be_found", "cannot import '.*' from here: No module named 'nowhere_to_be_found'"),
    ],
)
def test_a_file_that_cannot_be_imported_is_one_sentence(here: Path, code: str, sentence: str) -> None:
    (here / "broken_x.py").write_text(code)
    for place in ("broken_x", "broken_x.py"):
        with pytest.raises(UsageError, match=sentence) as caught:
            load_victim(f"{place}:net", **BOX)
        assert "\n" not in str(caught.value)


def test_an_exported_program_answers_and_has_gradients(tmp_path, x: Tensor) -> None:
    net = small_net()
    program = torch.export.export(net, (x,), dynamic_shapes=({0: torch.export.Dim("n")},))
    torch.export.save(program, tmp_path / "net.pt2")
    victim = load_victim(tmp_path / "net.pt2", **BOX)
    assert (victim.spec.input_shape, victim.spec.classes) == ((3,), 4)
    answer = Oracle(victim, "logits+gradient").query(x)
    expected = Oracle(load_victim(net, **BOX), "logits+gradient").query(x)
    torch.testing.assert_close(answer.logits, expected.logits)
    torch.testing.assert_close(answer.gradients, expected.gradients)


@pytest.mark.parametrize("rows", [1, 3])
def test_an_exported_program_of_fixed_batch_is_asked_that_many_at_a_time(tmp_path, x: Tensor, rows: int) -> None:
    """What torch.export writes where nobody says which sides are free."""
    net = small_net()
    torch.export.save(torch.export.export(net, (x[:rows],)), tmp_path / "net.pt2")
    victim = load_victim(tmp_path / "net.pt2", **BOX)
    assert f"rows are asked {rows} at a time" in victim.notes[0]
    answer = Oracle(victim, "logits+gradient").query(x)
    expected = Oracle(load_victim(net, **BOX), "logits+gradient").query(x)
    torch.testing.assert_close(answer.logits, expected.logits)
    torch.testing.assert_close(answer.gradients, expected.gradients)


def onnx_file(path: Path, batch: str | int, output: str = "logits") -> np.ndarray:
    from onnx import TensorProto, checker, helper, numpy_helper, save

    weight = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], [output])],
        "linear",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3])],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, [batch, 4])],
        [numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    checker.check_model(model)
    save(model, path)
    return weight


def test_an_onnx_file_answers_what_its_weights_say(tmp_path, x: Tensor) -> None:
    pytest.importorskip("onnxruntime")
    weight = onnx_file(tmp_path / "net.onnx", "n")
    victim = load_victim(str(tmp_path / "net.onnx"), **BOX)
    assert (victim.spec.input_shape, victim.spec.classes, victim.spec.outputs) == ((3,), 4, "logits")
    np.testing.assert_allclose(Oracle(victim, "logits").query(x).logits, x.numpy() @ weight, rtol=1e-5)
    with pytest.raises(UsageError, match="white-box work needs an"):
        _ = victim.white_box
    with pytest.raises(UsageError, match="needs a differentiable victim"):
        Oracle(victim, "logits+gradient")


@pytest.mark.parametrize("suffix", ["pt2", "onnx"])
def test_a_file_that_is_not_what_it_says_is_named(tmp_path, suffix: str) -> None:
    path = tmp_path / f"net.{suffix}"
    with pytest.raises(UsageError, match=rf"there is no file .*net\.{suffix}"):
        load_victim(path, **BOX)
    path.write_bytes(b"nothing of the kind" * 50)
    with pytest.raises(UsageError, match=f"net.{suffix} is not a") as caught:
        load_victim(path, **BOX)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["w.pt", "w.pth", "w.pkl", "w.pickle", "w.joblib", "w.bin", "w.ckpt", "W.PT"])
def test_pickles_are_refused_unopened(tmp_path, name: str) -> None:
    (tmp_path / name).write_bytes(b"cos\nsystem\n(S'exit 1'\ntR.")
    with pytest.raises(UsageError, match=r"may be a pickle.*; give package.module:factory, a torch.export .pt2 file"):
        load_victim(tmp_path / name, **BOX)


@pytest.fixture
def table() -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(1).random((120, 3))
    return x, (x[:, 0] > 0.5).astype(int) + (x[:, 1] > 0.5)


def test_an_estimator_with_probabilities(table) -> None:
    x, y = table
    model = RandomForestClassifier(10, random_state=0).fit(x, y)
    victim = load_victim(model, **BOX)
    assert (victim.spec.input_shape, victim.spec.classes, victim.spec.outputs) == ((3,), 3, "probs")
    np.testing.assert_array_equal(Oracle(victim).query(x).probs, model.predict_proba(x))


def test_an_estimator_with_labels_only_and_classes_by_name(table) -> None:
    x, y = table
    names = np.array(["owl", "cat", "dog"])
    model = RidgeClassifier().fit(x, names[y])
    victim = load_victim(model, **BOX)
    assert (victim.spec.outputs, victim.spec.classes) == ("labels", 3)
    labels = Oracle(victim, "labels").query(x).labels.numpy()
    assert (model.classes_[labels] == model.predict(x)).all()
    assert len(set(labels)) == 3


def test_an_estimator_whose_classes_are_not_sorted() -> None:
    class Backwards:
        classes_, n_features_in_ = ["b", "a"], 3

        def predict(self, x: np.ndarray) -> np.ndarray:
            return np.where(x[:, 0] > 0.5, "a", "b")

    x = np.array([[0.1, 0, 0], [0.9, 0, 0]])
    assert Oracle(load_victim(Backwards(), **BOX), "labels").query(x).labels.tolist() == [0, 1]


def test_what_is_no_classifier_is_refused(table) -> None:
    for source in (LogisticRegression(), 3, None):
        with pytest.raises(
            UsageError, match=f"expected a function, a fitted classifier, an nn.Module, .* got {type(source).__name__}"
        ):
            load_victim(source, **BOX)


def test_a_plain_function_of_arrays(x: Tensor) -> None:
    seen = []

    def score(batch: np.ndarray) -> list[list[float]]:
        seen.append(type(batch))
        return [[float(row.sum()), 0.5] for row in batch]

    answer = Oracle(load_victim(score, input_shape=(3,), **BOX), "logits").query(x)
    np.testing.assert_allclose(answer.logits[:, 0], x.sum(1), rtol=1e-6)
    assert set(seen) == {np.ndarray}


def nan(x: np.ndarray) -> np.ndarray:
    return np.full((len(x), 2), np.nan)


@pytest.mark.parametrize(
    ("source", "facts", "sentence"),
    [
        (small_net(), {"low": 0.0}, "the range of the inputs cannot be read off this victim; pass high"),
        (small_net(), {"low": 0.0}, "pass high,"),
        (nn.Conv2d(1, 2, 3), BOX, r"the shape of one input cannot be read off this victim; pass input_shape="),
        (
            small_net(),
            {**BOX, "input_shape": (5,)},
            r"raised RuntimeError on a probe of shape \(4, 5\).*check input_shape",
        ),
        (
            nn.Conv2d(3, 2, 3),
            {**BOX, "input_shape": (9, 9, 2)},
            r"on a probe of shape \(4, 9, 9, 2\).*channels, height, width, and pass layout='nhwc' if it takes",
        ),
        (
            lambda table: table["age"],
            {**BOX, "input_shape": (3,)},
            r"raised IndexError on a probe .* given a plain array: where it wants a data frame, name its columns",
        ),
        (nn.Conv2d(1, 2, 3), {"low": 0.0}, "pass input_shape=.*; also, the range of the inputs cannot be read"),
        (small_net(), {**BOX, "input_shape": 3}, "expected input_shape to hold whole numbers, got 3"),
        (small_net(), {**BOX, "input_shape": (3.5,)}, "expected input_shape to hold whole numbers"),
        (small_net(), {**BOX, "input_shape": (0,)}, "expected input_shape to hold sizes of at least 1"),
        (small_net(), {**BOX, "classes": 7}, "expected 7 classes, got outputs with 4 columns"),
        (small_net(), {**BOX, "classes": -1}, "expected classes to be at least 1, got -1"),
        (small_net(), {**BOX, "outputs": "logit"}, "one of logits, probs, labels, got 'logit'; did you mean 'logits'"),
        (small_net(), {**BOX, "outputs": "probs"}, "expected probabilities that are positive and add up to 1"),
        (small_net(), {"low": 1.0, "high": 0.0}, "expected low below high for every feature"),
        (
            small_net(),
            {"low": [0.0, 0.0], "high": 1.0},
            r"expected low to be a number or one number a feature of shape \(3,",
        ),
        (small_net(), {"low": 0.0, "high": float("inf")}, "expected high to be finite; use high=None"),
        (small_net(), {"low": "zero", "high": 1.0}, "expected low to be a number"),
        (nan, {**BOX, "input_shape": (3,)}, "answered a probe with NaN or infinity"),
        (
            lambda x: np.array(["cat"] * len(x)),
            {**BOX, "input_shape": (3,)},
            "expected numbers as answers, got the word 'cat'; pass the names",
        ),
        (lambda x: x[:2], {**BOX, "input_shape": (3,)}, r"one row of outputs for each of 4 inputs, got shape \(2, 3\)"),
        (
            lambda x: np.zeros(len(x), int),
            {**BOX, "input_shape": (3,)},
            "does not say how many there are; pass classes=",
        ),
        (lambda x: 9 + x[:, 0], {**BOX, "input_shape": (3,)}, "got one number a row"),
        (
            lambda x: 9 + x[:, :1],
            {**BOX, "input_shape": (3,), "outputs": "probs"},
            "expected a probability from 0 to 1",
        ),
        (lambda x: x, {**BOX, "input_shape": (3,), "outputs": "labels", "classes": 3}, "expected one label a row"),
        ("nothing", BOX, "expected package.module:factory, a torch.export .pt2 file.* got 'nothing'"),
        ("no_such_module_x:f", BOX, "cannot import 'no_such_module_x' from here"),
        ("no_such_file.py:f", BOX, "there is no file no_such_file.py"),
    ],
)
def test_what_is_wrong_or_missing_is_one_sentence(source: object, facts: dict, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence) as caught:
        load_victim(source, **facts)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_victim_comes_back_as_it_is() -> None:
    victim = load_victim(small_net(), **BOX)
    assert load_victim(victim) is victim
