"""Whatever a model returns: dictionaries, tuples, maps, booleans, columns of labels: each is read, or asked for."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from leakmeter.errors import UsageError
from leakmeter.oracle.oracle import Oracle
from leakmeter.victims.load import load_victim

BOX = {"low": 0.0, "high": 1.0, "input_shape": (3,)}
X = torch.rand(9, 3, generator=torch.Generator().manual_seed(0))
Pair = namedtuple("Pair", "logits hidden")


class Network(nn.Module):
    """Returns its scores in some wrapping."""

    def __init__(self, wrap) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.wrap = nn.Linear(3, 4), wrap

    def forward(self, x: Tensor):
        return self.wrap(self.layer(x))


@pytest.mark.parametrize(
    ("wrap", "output"),
    [
        (lambda y: {"logits": y}, None),
        (lambda y: {"logits": y, "hidden": 2 * y}, None),
        (lambda y: OrderedDict(loss=None, logits=y), None),
        (lambda y: {"a": y, "b": 2 * y}, "a"),
        (lambda y: (y,), None),
        (lambda y: (2 * y, y), "1"),
        (lambda y: [y, 2 * y], "0"),
        (lambda y: Pair(y, 2 * y), None),
    ],
)
def test_the_output_that_is_meant_is_read_and_has_gradients(wrap, output: str | None) -> None:
    network = Network(wrap)
    victim = load_victim(network, output=output, **BOX)
    answer = Oracle(victim, "logits+gradient").query(X)
    torch.testing.assert_close(answer.logits, network.layer(X).detach())
    torch.testing.assert_close(victim.white_box(X), network.layer(X))
    assert answer.gradients is not None


def test_a_network_that_returns_a_tensor_is_its_own_white_box() -> None:
    network = Network(lambda y: y)
    assert load_victim(network, **BOX).white_box is network


@pytest.mark.parametrize(
    ("wrap", "output", "sentence"),
    [
        (lambda y: {"a": y, "b": y}, None, r"returns a \(4x4\), b \(4x4\); choose one with output='a', .* --output a"),
        (lambda y: {"logits_a": y, "logits_b": y}, None, "choose one with output='logits_a'"),
        (lambda y: (y, 2 * y), None, "choose one with output='0'"),
        (lambda y: {"first": y, "b": y}, "frist", "no output 'frist'; did you mean 'first'"),
        (lambda y: y, "logits", "output only for a model that returns several, got 'logits'"),
        (lambda y: {}, None, "return numbers, got nothing"),
        (lambda y: None, None, "expected the model to return a tensor, got NoneType"),
    ],
)
def test_what_does_not_tell_which_is_meant_is_asked(wrap, output: str | None, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence) as caught:
        load_victim(Network(wrap), output=output, **BOX)
    assert "input_shape" not in str(caught.value)


def scores(x: np.ndarray) -> np.ndarray:
    return np.stack([x[:, 0], 1 - x[:, 0]], 1)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: {"probs": scores(x), "labels": scores(x).argmax(1)},
        lambda x: scores(x).tolist(),
        lambda x: list(scores(x)),
        lambda x: [{"cat": a, "dog": b} for a, b in scores(x)],
        lambda x: torch.from_numpy(scores(x)),
    ],
)
def test_functions_may_wrap_their_answers_too(function) -> None:
    victim = load_victim(function, **BOX)
    assert (victim.spec.outputs, victim.spec.classes) == ("probs", 2)
    np.testing.assert_allclose(Oracle(victim).query(X).probs.numpy(), scores(X.numpy()), rtol=1e-6)


def test_maps_name_the_classes_and_must_name_the_same() -> None:
    victim = load_victim(lambda x: [{"cat": a, "dog": b} for a, b in scores(x)], **BOX)
    assert victim.spec.class_names == ("cat", "dog")
    with pytest.raises(UsageError, match="a score for the same classes in every row"):
        load_victim(lambda x: [{"cat": 1.0}, *({"dog": 1.0} for _ in x[1:])], **BOX)


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
@pytest.mark.parametrize("kind", [bool, np.int64, np.int32, np.uint8])
def test_labels_are_read_as_labels(shape: tuple[int, ...], kind: type) -> None:
    victim = load_victim(
        lambda x: (x[:, 0] > 0.5).astype(kind).reshape(shape), **BOX, classes=None if kind is bool else 2
    )
    assert (victim.spec.outputs, victim.spec.classes) == ("labels", 2)
    assert Oracle(victim, "labels").query(X).labels.tolist() == (X[:, 0] > 0.5).long().tolist()


def test_labels_that_nobody_counted_are_asked_for_with_everything_else() -> None:
    box = {"input_shape": (3,), "low": 0.0}
    with pytest.raises(UsageError, match=r"pass high.*; also, .*labels does not say how many .*--classes 10"):
        load_victim(lambda x: (x[:, :1] > 0.5).astype(int), **box)


def test_one_true_column_a_row_is_a_distribution() -> None:
    victim = load_victim(lambda x: scores(x) >= scores(x).max(1, keepdims=True), **BOX)
    assert (victim.spec.outputs, victim.spec.classes) == ("probs", 2)


def test_one_score_a_row_is_said_to_be_read_by_its_sign() -> None:
    assert "its sign was taken to decide" in load_victim(lambda x: 9 * x[:, :1] - 4, **BOX).notes[0]
    assert load_victim(lambda x: 9 * x[:, :1] - 4, **BOX, outputs="logits").notes == ()
    with pytest.raises(UsageError, match="one number a row that is no probability; pass outputs='labels'"):
        load_victim(lambda x: np.rint(9 * x[:, :1]), **BOX)


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (lambda x: None, "expected the function to return numbers, got None"),
        (lambda x: [object()] * len(x), "expected the victim to return numbers, got object"),
        (lambda x: nn.Linear(3, 2)(x), r"raised TypeError .* calls a network, give the nn.Module itself"),
    ],
)
def test_what_is_no_answer_is_a_sentence(function, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        load_victim(function, **BOX)


def test_a_class_is_no_model(tmp_path) -> None:
    (tmp_path / "own.py").write_text("from torch import nn\n\ndef model():\n    return nn.Linear\n")
    with pytest.raises(UsageError, match="to give a model, got the class Linear: make one"):
        load_victim(f"{tmp_path / 'own.py'}:model", **BOX)


@pytest.mark.parametrize("size", [8, (8, 8), [8, 8]])
def test_the_configuration_of_a_hub_model_says_shape_and_names(size) -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 2))
    network.config = SimpleNamespace(num_channels=1, image_size=size, id2label={1: "dog", 0: "cat"})
    victim = load_victim(network, low=0.0, high=1.0)
    assert (victim.spec.input_shape, victim.spec.class_names) == ((1, 8, 8), ("cat", "dog"))
    network.config.id2label = {0: "LABEL_0", 1: "LABEL_1"}
    assert load_victim(network, low=0.0, high=1.0).spec.class_names == ()
