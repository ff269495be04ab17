"""ONNX files as they are exported in the wild: each works, or is asked for by name what it lacks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from leakmeter.errors import UsageError
from leakmeter.oracle.oracle import Oracle
from leakmeter.victims.load import load_victim

pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")
from onnx import TensorProto as T  # noqa: E402
from onnx import helper, numpy_helper  # noqa: E402

BOX = {"low": 0.0, "high": 1.0}
RNG = np.random.default_rng(0)
W = RNG.normal(size=(12, 4)).astype(np.float32)


def save(path: Path, nodes, inputs, outputs, weights=None, domains=(("", 17),)) -> str:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in inputs],
        [
            each if not isinstance(each, tuple) else helper.make_tensor_value_info(each[0], each[1], each[2])
            for each in outputs
        ],
        [numpy_helper.from_array(value, name) for name, value in (weights or {}).items()],
    )
    opsets = [helper.make_opsetid(name, version) for name, version in domains]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return str(path)


def flat_net(path: Path, shape: list, kind=T.FLOAT, *, first=None, output_batch=1, softmax=False) -> str:
    """Flattens by a constant shape, as most exporters write it, then multiplies by W."""
    cast = [helper.make_node("Cast", ["x"], ["f"], to=T.FLOAT)]
    nodes = [*cast, helper.make_node("Reshape", ["f", "shape"], ["r"]), helper.make_node("MatMul", ["r", "w"], ["y"])]
    nodes += [helper.make_node("Softmax", ["y"], ["p"], axis=1)] if softmax else []
    out = "p" if softmax else "y"
    sides = np.array([shape[0] if first is None else first, 12], dtype=np.int64)
    return save(path, nodes, [("x", kind, shape)], [(out, T.FLOAT, [output_batch, 4])], {"shape": sides, "w": W})


def answers(victim, x) -> np.ndarray:
    return Oracle(victim, "logits").query(x).logits.numpy()


def rows(*shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("batch", [1, 3])
def test_a_fixed_batch_is_made_free_and_that_is_said(tmp_path, batch: int) -> None:
    path = flat_net(tmp_path / "m.onnx", [batch, 12], output_batch=batch)
    victim, x = load_victim(path, **BOX), rows(7, 12)
    np.testing.assert_allclose(answers(victim, x), x.numpy() @ W, rtol=1e-4)
    assert victim.notes == (
        f"The model was exported for batches of {batch}: its batch dimension was made free, and it answers a few rows "
        "as the file does.",
    )


def test_without_the_onnx_package_rows_are_asked_as_many_as_it_takes(tmp_path, monkeypatch) -> None:
    def missing(path: Path, batch: int) -> bytes:
        raise ValueError("the package onnx, which could make its batch dimension free, is not installed")

    monkeypatch.setattr("leakmeter.victims.onnx.free_batch", missing)
    victim, x = load_victim(flat_net(tmp_path / "m.onnx", [3, 12], output_batch=3), **BOX), rows(7, 12)
    np.testing.assert_allclose(answers(victim, x), x.numpy() @ W, rtol=1e-4)
    (note,) = victim.notes
    assert "rows are asked 3 at a time, because the package onnx" in note


def test_a_graph_that_mixes_rows_is_asked_row_by_row(tmp_path) -> None:
    """A mean over the batch: together, rows would change each other's answers."""
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["m"], axes=[0], keepdims=1),
        helper.make_node("Add", ["x", "m"], ["s"]),
        helper.make_node("MatMul", ["s", "w"], ["y"]),
    ]
    for name, batch in (("dynamic", "n"), ("fixed", 1)):
        path = save(
            tmp_path / f"{name}.onnx", nodes, [("x", T.FLOAT, [batch, 12])], [("y", T.FLOAT, [batch, 4])], {"w": W}
        )
        victim, x = load_victim(path, **BOX), rows(5, 12)
        np.testing.assert_allclose(answers(victim, x), 2 * x.numpy() @ W, rtol=1e-4)
        assert "asked 1 at a time, because a row's answer depends on the rows beside it" in victim.notes[0]


def test_a_free_batch_with_a_constant_inside_is_asked_row_by_row(tmp_path) -> None:
    path = flat_net(tmp_path / "m.onnx", ["n", 12], first=1, output_batch="n")
    victim, x = load_victim(path, **BOX), rows(5, 12)
    np.testing.assert_allclose(answers(victim, x), x.numpy() @ W, rtol=1e-4)
    assert victim.notes[0].startswith("Rows are asked 1 at a time, because its graph takes no other number of rows")


def test_channels_last_is_found_and_queries_are_pictures(tmp_path) -> None:
    weights = RNG.normal(size=(16 * 16 * 3, 4)).astype(np.float32)
    nodes = [helper.make_node("Flatten", ["x"], ["r"]), helper.make_node("MatMul", ["r", "w"], ["y"])]
    ends = [("x", T.FLOAT, ["n", 16, 16, 3])], [("y", T.FLOAT, ["n", 4])]
    path = save(tmp_path / "m.onnx", nodes, *ends, {"w": weights})
    x = rows(5, 3, 16, 16)
    for shape in (None, (3, 16, 16), (16, 16, 3)):
        victim = load_victim(path, input_shape=shape, **BOX)
        assert victim.spec.input_shape == (3, 16, 16)
        np.testing.assert_allclose(
            answers(victim, x), x.permute(0, 2, 3, 1).reshape(5, -1).numpy() @ weights, rtol=1e-3, atol=1e-4
        )
    with pytest.raises(UsageError, match=r"put channels first with permute\(0, 3, 1, 2\)"):
        Oracle(victim, "logits").query(x.permute(0, 2, 3, 1))


def test_an_unclear_layout_is_asked_for(tmp_path) -> None:
    path = save(
        tmp_path / "m.onnx",
        [helper.make_node("Flatten", ["x"], ["y"])],
        [("x", T.FLOAT, ["n", 3, 16, 3])],
        [("y", T.FLOAT, ["n", 144])],
    )
    with pytest.raises(UsageError, match=r"cannot tell channels.* 3x16x3; pass layout='nchw'.*--layout"):
        load_victim(path, **BOX)
    assert load_victim(path, layout="nhwc", **BOX).spec.input_shape == (3, 3, 16)
    assert load_victim(path, layout="nchw", **BOX).spec.input_shape == (3, 16, 3)


@pytest.mark.parametrize(
    ("kind", "box", "edges"),
    [
        (T.UINT8, {}, (0, 255)),
        (T.INT8, {}, (-128, 127)),
        (T.INT32, {"low": 0, "high": 9}, (0, 9)),
        (T.BOOL, {}, (0, 1)),
    ],
)
def test_whole_numbers(tmp_path, kind: int, box: dict, edges: tuple[int, int]) -> None:
    victim = load_victim(flat_net(tmp_path / "m.onnx", [1, 12], kind), **box)
    assert (float(victim.spec.low), float(victim.spec.high)) == edges
    x = victim.spec.sample(6, torch.Generator().manual_seed(0))
    np.testing.assert_allclose(answers(victim, x), x.round().numpy() @ W, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", [T.INT16, T.UINT16, T.INT32, T.UINT32, T.INT64, T.UINT64])
def test_whole_numbers_of_many_bits_need_a_range(tmp_path, kind: int) -> None:
    path = flat_net(tmp_path / "m.onnx", [1, 12], kind)
    with pytest.raises(UsageError, match=r"pass low and high.*--low=0 --high=255"):
        load_victim(path)
    victim = load_victim(path, low=0.0, high=9.0)
    x = victim.spec.sample(6, torch.Generator().manual_seed(0))
    np.testing.assert_allclose(answers(victim, x), x.round().numpy() @ W, rtol=1e-3, atol=1e-3)


def looked_up(path: Path, how: str) -> str:
    """Whole numbers that are rows of a table, places of a one-hot code, or compared with all that there are."""
    table = RNG.normal(size=(30, 4)).astype(np.float32)
    code = [helper.make_node("MatMul", ["hot", "table"], ["e"])]
    first = {
        "gather": [helper.make_node("Gather", ["table", "x"], ["e"])],
        "onehot": [helper.make_node("OneHot", ["x", "depth", "ends"], ["hot"]), *code],
        "equal": [
            helper.make_node("Unsqueeze", ["x", "last"], ["u"]),
            helper.make_node("Equal", ["u", "all"], ["same"]),
            helper.make_node("Cast", ["same"], ["hot"], to=T.FLOAT),
            *code,
        ],
    }[how]
    weights = {"table": table, "depth": np.array(30), "ends": np.array([0, 1], np.float32)}
    weights |= {"last": np.array([2]), "all": np.arange(30).reshape(1, 1, 30)}
    mean = helper.make_node("ReduceMean", ["e"], ["y"], axes=[1], keepdims=0)
    return save(path, [*first, mean], [("x", T.INT64, ["n", 6])], [("y", T.FLOAT, ["n", 4])], weights)


@pytest.mark.parametrize("how", ["gather", "onehot", "equal"])
def test_the_range_of_tokens_is_that_of_what_they_are_looked_up_in(tmp_path, how: str) -> None:
    victim = load_victim(looked_up(tmp_path / "m.onnx", how))
    assert (float(victim.spec.low), float(victim.spec.high)) == (0.0, 29.0)
    assert answers(victim, torch.full((2, 6), 29.0)).shape == (2, 4)


def test_one_input_without_a_dimension_of_rows(tmp_path) -> None:
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["r"]), helper.make_node("MatMul", ["r", "w"], ["y"])]
    for name, sides, shape in (("row", [1, 4], [1, 12]), ("flat", [4], [12])):
        weights = {"shape": np.array(shape), "w": W}
        path = save(tmp_path / f"{name}.onnx", nodes, [("x", T.FLOAT, [3, 2, 2])], [("y", T.FLOAT, sides)], weights)
        victim, x = load_victim(path, **BOX), rows(5, 3, 2, 2)
        assert victim.spec.input_shape == (3, 2, 2)
        assert "without a dimension of rows" in victim.notes[0]
        np.testing.assert_allclose(answers(victim, x), x.reshape(5, 12).numpy() @ W, rtol=1e-4)


@pytest.mark.parametrize("kept", [0, 1])
def test_labels_are_labels_also_in_a_column_and_all_is_asked_at_once(tmp_path, kept: int) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["s"]),
        helper.make_node("ArgMax", ["s"], ["y"], axis=1, keepdims=kept),
    ]
    sides = ["n", 1] if kept else ["n"]
    path = save(tmp_path / "m.onnx", nodes, [("x", T.FLOAT, ["n", 12])], [("y", T.INT64, sides)], {"w": W})
    with pytest.raises(UsageError, match=r"--classes 10; also, the range of the inputs"):
        load_victim(path)
    victim, x = load_victim(path, classes=4, **BOX), rows(5, 12)
    assert victim.spec.outputs == "labels"
    assert Oracle(victim, "labels").query(x).labels.tolist() == (x.numpy() @ W).argmax(1).tolist()


def test_a_sequence_of_tensors_is_a_sentence(tmp_path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["s"]), helper.make_node("SequenceConstruct", ["s", "s"], ["y"])]
    tensors = helper.make_tensor_sequence_value_info("y", T.FLOAT, ["n", 4])
    path = save(tmp_path / "m.onnx", nodes, [("x", T.FLOAT, ["n", 12])], [tensors], {"w": W})
    with pytest.raises(
        UsageError, match=r"output 'y' to be numbers or a map a row, got a sequence of ndarray"
    ) as caught:
        load_victim(path, **BOX)
    assert "input_shape" not in str(caught.value)


def test_logits_beside_other_outputs_are_read_and_that_is_said(tmp_path) -> None:
    nodes = [helper.make_node("Identity", ["x"], ["hidden"]), helper.make_node("MatMul", ["x", "w"], ["logits"])]
    outputs = [("hidden", T.FLOAT, ["n", 12]), ("logits", T.FLOAT, ["n", 4])]
    victim = load_victim(save(tmp_path / "m.onnx", nodes, [("x", T.FLOAT, ["n", 12])], outputs, {"w": W}), **BOX)
    assert victim.spec.classes == 4
    assert victim.notes == ("Of the outputs hidden (nx12 float), logits (nx4 float) of the model 'logits' was read.",)


def table_of_inputs(path: Path, *, words: bool) -> str:
    """A column an input, as skl2onnx converts a pipeline on a data frame."""
    nodes, last = [], "job"
    if words:
        code = {"keys_strings": ["cook", "smith"], "values_floats": [1.0, -1.0], "default_float": 0.0}
        nodes, last = [helper.make_node("LabelEncoder", ["job"], ["code"], domain="ai.onnx.ml", **code)], "code"
    nodes += [
        helper.make_node("Cast", ["age"], ["years"], to=T.FLOAT),
        helper.make_node("Concat", ["years", "debt", last], ["row"], axis=1),
        helper.make_node("MatMul", ["row", "w"], ["y"]),
    ]
    inputs = [
        ("age", T.INT64, ["n", 1]),
        ("debt", T.FLOAT, ["n", 1]),
        ("job", T.STRING if words else T.FLOAT, ["n", 1]),
    ]
    domains = (("", 17), ("ai.onnx.ml", 3))
    return save(path, nodes, inputs, [("y", T.FLOAT, ["n", 4])], {"w": W[:3]}, domains)


def test_inputs_that_are_columns_make_a_table(tmp_path) -> None:
    victim = load_victim(table_of_inputs(tmp_path / "m.onnx", words=False), low=[18, 0, -1], high=[99, 5, 1])
    assert victim.spec.input_shape == (3,)
    x = torch.tensor([[30.0, 2.5, 0.5], [70.0, 0.5, -1.0]], dtype=torch.float64)
    np.testing.assert_allclose(answers(victim, x), x.numpy() @ W[:3], rtol=1e-4)


def test_columns_of_words_are_given_words(tmp_path) -> None:
    path = table_of_inputs(tmp_path / "m.onnx", words=True)
    with pytest.raises(UsageError, match=r"the inputs job take words: say which, by a table \(--data\)"):
        load_victim(path, **BOX)
    columns = {
        "job": {"kind": "categorical", "levels": ["smith", "cook"]},
        "age": {"kind": "integer", "low": 18, "high": 99},
        "debt": {"low": 0.0, "high": 5.0},
    }
    victim = load_victim(path, columns=columns)
    x = torch.tensor([[0, 30, 2.5], [1, 70, 0.5]], dtype=torch.float64)
    taken = np.array([[30, 2.5, -1.0], [70, 0.5, 1.0]])
    np.testing.assert_allclose(answers(victim, x), taken @ W[:3], rtol=1e-4)
    for wrong, sentence in (
        ({"work": columns["job"]} | {name: columns[name] for name in ("age", "debt")}, "a difference at 'work'"),
        (columns | {"job": {"low": 0, "high": 1}}, "'job' takes words: give the column levels"),
        (columns | {"debt": {"kind": "categorical", "levels": ["a", "b"]}}, "'debt' takes numbers"),
    ):
        with pytest.raises(UsageError, match=sentence):
            load_victim(path, columns=wrong)


def test_a_table_names_the_columns_of_such_a_model(tmp_path) -> None:
    from leakmeter._audit.opening import load_test, open_victim
    from leakmeter.plan import make_plan

    path = table_of_inputs(tmp_path / "m.onnx", words=True)
    lines = [f"{18 + k},{k % 3},{'cook' if k % 2 else 'smith'},{'yes' if k % 2 else 'no'}" for k in range(40)]
    (tmp_path / "rows.csv").write_text("\n".join(["age,debt,job,paid", *lines]))
    plan = make_plan({"victim": {"source": path}, "data": {"name": str(tmp_path / "rows.csv")}})
    test = load_test(plan)
    assert test.columns.names == ["age", "debt", "job"]
    assert test.y is not None
    assert open_victim(plan, test).spec.columns.names == ["age", "debt", "job"]


def test_a_file_that_fails_on_sides_of_one_is_not_taken_for_one_without_memory(tmp_path) -> None:
    nodes = [helper.make_node("Flatten", ["x"], ["f"]), helper.make_node("MatMul", ["f", "w"], ["y"])]
    sides = [None, 3, None, None]
    path = save(tmp_path / "m.onnx", nodes, [("x", T.FLOAT, sides)], [("y", T.FLOAT, [None, 4])], {"w": W})
    with pytest.raises(UsageError, match=r"leaves sides of its input open"):
        load_victim(path)
    assert load_victim(path, input_shape=(3, 2, 2), **BOX).spec.classes == 4


def two_inputs(path: Path) -> str:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["s"]),
        helper.make_node("Mul", ["s", "gain"], ["g"]),
        helper.make_node("Add", ["g", "state"], ["y"]),
        helper.make_node("ReduceMax", ["y"], ["top"], axes=[1], keepdims=1),
    ]
    inputs = [("x", T.FLOAT, ["n", 12]), ("gain", T.FLOAT, []), ("state", T.FLOAT, ["n", 4])]
    return save(path, nodes, inputs, [("y", T.FLOAT, ["n", 4]), ("top", T.FLOAT, ["n", 1])], {"w": W})


def test_several_inputs_and_outputs_are_chosen_by_name(tmp_path) -> None:
    path, x = two_inputs(tmp_path / "m.onnx"), rows(5, 12)
    with pytest.raises(
        UsageError,
        match=r"got 3 of x \(nx12 float\), gain \(float\), state .*--fix gain=0 --fix state=0; also, the model has the "
        r"outputs .*; also, the range of the inputs .*--low=0 --high=1",
    ):
        load_victim(path)
    fixed = {"gain": 2.0, "state": [1.0, 0.0, 0.0, 0.0]}
    with pytest.raises(UsageError, match=r"has the outputs y \(nx4 float\), top .*; choose one with output='y'"):
        load_victim(path, inputs=fixed, **BOX)
    victim = load_victim(path, inputs=fixed, output="y", **BOX)
    np.testing.assert_allclose(answers(victim, x), 2 * x.numpy() @ W + np.eye(4)[0], rtol=1e-4)
    for wrong, sentence in (
        ({"inputs": {"gian": 1.0}}, "no input 'gian'; did you mean 'gain'"),
        (
            {"inputs": {"gain": 1.0, "state": "much"}, "output": "y"},
            "expected numbers of nx4 float for the input 'state', got 'much'",
        ),
        ({"inputs": fixed, "output": "z"}, r"no output 'z' \(known: y"),
    ):
        with pytest.raises(UsageError, match=sentence):
            load_victim(path, **wrong, **BOX)


def test_more_rows_of_answers_than_of_inputs_are_no_classes(tmp_path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["scores"]),
        helper.make_node("Transpose", ["scores"], ["y"], perm=[1, 0]),
    ]
    path = save(tmp_path / "m.onnx", nodes, [("x", T.FLOAT, [1, 12])], [("y", T.FLOAT, ["letters", 1])], {"w": W})
    with pytest.raises(UsageError, match=r"one row of outputs for each of 1 inputs, got shape \(4, 1\); .* texts"):
        load_victim(path, **BOX)


def test_a_model_without_outputs_is_a_sentence(tmp_path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    with pytest.raises(UsageError, match="output"):
        load_victim(save(tmp_path / "m.onnx", nodes, [("x", T.FLOAT, ["n", 12])], [], {"w": W}), **BOX)


@pytest.mark.parametrize("words", [False, True])
def test_a_sequence_of_maps(tmp_path, words: bool) -> None:
    """What skl2onnx writes: labels, and a map from class to probability for each row."""
    labels = {"classlabels_strings": ["cat", "dog", "emu", "owl"]} if words else {"classlabels_int64s": [0, 1, 2, 3]}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["s"]),
        helper.make_node("Softmax", ["s"], ["p"], axis=1),
        helper.make_node("ArgMax", ["s"], ["label"], axis=1, keepdims=0),
        helper.make_node("ZipMap", ["p"], ["scores"], domain="ai.onnx.ml", **labels),
    ]
    key = T.STRING if words else T.INT64
    maps = helper.make_value_info(
        "scores",
        helper.make_sequence_type_proto(helper.make_map_type_proto(key, helper.make_tensor_type_proto(T.FLOAT, [1]))),
    )
    path = save(
        tmp_path / "m.onnx",
        nodes,
        [("x", T.FLOAT, [None, 12])],
        [("label", T.INT64, [None]), maps],
        {"w": W},
        (("", 17), ("ai.onnx.ml", 3)),
    )
    victim, x = load_victim(path, **BOX), rows(5, 12)
    assert (victim.spec.outputs, victim.spec.classes) == ("probs", 4)
    assert victim.spec.class_names == (("cat", "dog", "emu", "owl") if words else ())
    expected = torch.softmax(x @ torch.from_numpy(W), 1)
    torch.testing.assert_close(
        Oracle(victim).query(x).probs, expected.double(), rtol=1e-4, atol=1e-5, check_dtype=False
    )
    assert load_victim(path, output="label", classes=4, **BOX).spec.outputs == "labels"


def test_a_softmax_at_the_end_is_seen(tmp_path) -> None:
    assert load_victim(flat_net(tmp_path / "m.onnx", [1, 12], softmax=True), **BOX).spec.outputs == "probs"


def test_open_sides_are_asked_for_and_filled_by_name(tmp_path) -> None:
    nodes = [
        helper.make_node("GlobalAveragePool", ["x"], ["y"]),
    ]
    for name, sides in (("named", ["n", 3, "height", "width"]), ("nameless", [None, 3, None, None])):
        path = save(tmp_path / f"{name}.onnx", nodes, [("x", T.FLOAT, sides)], [("y", T.FLOAT, [sides[0], 3, 1, 1])])
        with pytest.raises(UsageError, match=r"leaves sides of its input open \(3x.*--input-shape 3,224,224 or"):
            load_victim(path, **BOX)
        assert load_victim(path, input_shape=(3, 20, 24), **BOX).spec.input_shape == (3, 20, 24)
        victim = load_victim(path, sizes={"H": 20, "W": 24}, **BOX)
        np.testing.assert_allclose(
            answers(victim, rows(5, 3, 20, 24)), rows(5, 3, 20, 24).mean((2, 3)).numpy(), rtol=1e-4
        )
        with pytest.raises(UsageError, match=r"expected the name of an open side of .*, got 'depth' in sizes"):
            load_victim(path, sizes={"depth": 3}, **BOX)
    assert load_victim(tmp_path / "named.onnx", sizes={"height": 9, "width": 8}, **BOX).spec.input_shape == (3, 9, 8)


def test_pictures_for_a_flat_model_are_reshaped(tmp_path) -> None:
    victim = load_victim(flat_net(tmp_path / "m.onnx", [1, 12, 1]), input_shape=(1, 3, 4), **BOX)
    x = rows(5, 1, 3, 4)
    assert victim.spec.input_shape == (1, 3, 4)
    np.testing.assert_allclose(answers(victim, x), x.reshape(5, 12).numpy() @ W, rtol=1e-4)


def test_what_belongs_to_onnx_files_is_refused_elsewhere() -> None:
    with pytest.raises(UsageError, match=r"expected inputs only for an .onnx file, got it for"):
        load_victim(lambda x: x, inputs={"h": 0}, input_shape=(3,), **BOX)
    with pytest.raises(UsageError, match=r"expected output only for a model that returns several, got 'y'"):
        load_victim(lambda x: x, output="y", input_shape=(3,), **BOX)


VICTIMS = {
    "acasxu-1-1.onnx": ((1, 1, 5), 5),
    "cifar10-conv-kw-base.onnx": ((3, 32, 32), 10),
    "mnist-conv-maxpool.onnx": ((1, 28, 28), 10),
    "mnist-mlp-256x2.onnx": ((784, 1), 10),
}


@pytest.mark.parametrize("name", VICTIMS)
def test_public_networks_of_batch_one_load(name: str, strangers: Path) -> None:
    victim = load_victim(strangers / name, **BOX)
    assert (victim.spec.input_shape, victim.spec.classes) == VICTIMS[name]
    assert "made free" in victim.notes[0]
