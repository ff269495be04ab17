"""Preprocessing belongs to the model: queries stay raw, and what reaches the model is what its owner prepares."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import interpolate

from leakmeter.errors import UsageError
from leakmeter.oracle.oracle import Oracle
from leakmeter.victims.load import load_victim
from leakmeter.victims.preparation import settle
from leakmeter.victims.preparation_settings import PreparationSettings
from leakmeter.victims.victim import Question

BOX = {"low": 0.0, "high": 1.0}
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Seen:
    """A model that keeps what it is shown, and answers with sums."""

    def __call__(self, x: np.ndarray) -> np.ndarray:
        self.x = x
        flat = x.reshape(len(x), -1).astype(np.float64)
        return np.stack([flat.sum(1), flat.max(1)], 1)


def pictures(n: int = 5, *shape: int) -> torch.Tensor:
    return torch.rand(n, *(shape or (3, 8, 9)), generator=torch.Generator().manual_seed(0))


def shown(x: torch.Tensor, **settings: object) -> np.ndarray:
    model = Seen()
    Oracle(load_victim(model, input_shape=tuple(x.shape[1:]), **{**BOX, **settings}), "logits").query(x)
    return model.x


def test_scale_then_mean_then_std_by_channel() -> None:
    x = pictures()
    expected = (x * 255 - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)
    np.testing.assert_allclose(shown(x, scale=255, mean=MEAN, std=STD), expected, rtol=1e-6)


def test_channels_last_and_whole_numbers() -> None:
    x = pictures()
    got = shown(x, scale=255, layout="nhwc", dtype="uint8")
    assert (got.dtype, got.shape) == (np.uint8, (5, 8, 9, 3))
    np.testing.assert_array_equal(got, np.rint(x.numpy() * 255).transpose(0, 2, 3, 1))


def test_pictures_of_another_size() -> None:
    x = pictures()
    expected = interpolate(x, (4, 4), mode="bilinear", align_corners=False, antialias=True)
    np.testing.assert_allclose(shown(x, resize=(4, 4)), expected, rtol=1e-6)


def test_a_network_keeps_its_gradients_behind_the_preparation() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 9, 4)).eval()
    victim = load_victim(net, input_shape=(3, 8, 9), mean=MEAN, std=STD, **BOX)
    x = pictures()
    normal = (x - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)
    torch.testing.assert_close(victim.white_box(x), net(normal))
    assert victim.differentiable
    x.requires_grad_()
    victim.compute(x, Question(torch.Generator()))[0, 2].backward()
    by_hand = net[1].weight[2].view(3, 8, 9) / torch.tensor(STD).view(3, 1, 1)
    torch.testing.assert_close(x.grad[0], by_hand)


def test_whole_numbers_leave_no_gradient() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 9, 4)).eval()
    assert load_victim(net, input_shape=(3, 8, 9), **BOX).differentiable
    victim = load_victim(lambda x: x.reshape(len(x), -1)[:, :3], input_shape=(3, 8, 9), dtype="uint8", **BOX)
    assert not victim.differentiable


@given(
    st.tuples(st.sampled_from([1, 3]), st.integers(8, 40), st.integers(8, 40)),
    st.booleans(),
    st.booleans(),
)
def test_raw_pictures_are_channels_first_whatever_the_model_takes(shape, last: bool, said: bool) -> None:
    """The shape is told the same whether the owner says it, the model declares it, or both."""
    declared = (*shape[1:], shape[0]) if last else shape
    found = settle(shape if said else None, declared, PreparationSettings())
    assert (found.raw, found.shape, found.nhwc) == (shape, declared, last)
    x = torch.arange(2 * torch.Size(shape).numel()).reshape(2, *shape).float()
    made = found(x)
    assert tuple(made.shape[1:]) == declared
    assert torch.equal(made.permute(0, 3, 1, 2) if last else made, x)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"layout": "chw"}, "the victim: 'layout': input should be 'nchw' or 'nhwc', got 'chw'"),
        ({"mean": (0.5, 0.5)}, r"expected mean to be one number or one for each of 3 channels, got \(0.5, 0.5\)"),
        ({"std": 0.0}, "expected std to be positive, got 0"),
        ({"resize": (4,)}, "'resize': expected the height and the width that the model takes, such as"),
        ({"dtype": "int7"}, "the victim: 'dtype'"),
    ],
)
def test_what_cannot_be_prepared_is_said(settings: dict, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        shown(pictures(), **settings)


def test_a_table_cannot_be_resized() -> None:
    with pytest.raises(UsageError, match=r"expected pictures .* where resize or layout is set, got 3"):
        load_victim(Seen(), input_shape=(3,), resize=(4, 4), **BOX)


def test_classes_by_name() -> None:
    victim = load_victim(Seen(), input_shape=(3,), classes=["cat", "dog"], **BOX)
    assert (victim.spec.classes, victim.spec.class_names) == (2, ("cat", "dog"))
    with pytest.raises(UsageError, match="expected 3 classes, got outputs with 2 columns"):
        load_victim(Seen(), input_shape=(3,), classes=["cat", "dog", "owl"], **BOX)


def test_an_assumed_range_is_told() -> None:
    victim = load_victim(Seen(), input_shape=(3,), assumed=(0.0, 1.0))
    assert float(victim.spec.high) == 1
    assert "Nobody said what range of inputs the model takes: it was taken to be 0 to 1" in victim.notes[0]
    assert load_victim(Seen(), input_shape=(3,), assumed=(0.0, 1.0), **BOX).notes == ()


def test_broadcast_views_are_read() -> None:
    victim = load_victim(lambda x: np.broadcast_to(x[:, :1] - 0.5, (len(x), 3)), input_shape=(3,), **BOX)
    assert Oracle(victim, "logits").query(np.full((4, 3), 0.25, np.float32)).logits.tolist() == [[-0.25] * 3] * 4
    one = load_victim(lambda x: (x[:, 0] - 2)[:, None], input_shape=(3,), outputs="logits", **BOX)
    assert one.spec.classes == 1
