"""Every view shows exactly what it should, checked by hand in numpy, and reads back what it writes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor, nn

from leakmeter.errors import UsageError, VictimError
from leakmeter.oracle.explanations.gradient import Gradient
from leakmeter.oracle.explanations.smoothgrad import SmoothGrad
from leakmeter.oracle.oracle import Oracle
from leakmeter.oracle.view import View, contains
from leakmeter.victims.load import load_victim

EXPLANATIONS = st.one_of(
    st.just({}),
    st.just({"explanation": Gradient()}),
    st.builds(
        lambda samples, sigma: {"explanation": SmoothGrad(samples, sigma)},
        st.integers(1, 10**6),
        st.floats(min_value=0, exclude_min=True, allow_nan=False, allow_infinity=False),
    ),
)
BASES = st.one_of(
    st.sampled_from([{"kind": "labels"}, {"kind": "probs"}, {"kind": "logits"}]),
    st.builds(lambda k: {"kind": "top", "k": k}, st.integers(1, 10**6)),
    st.builds(lambda d: {"kind": "probs", "decimals": d}, st.integers(0, 17)),
)


@given(BASES, EXPLANATIONS)
def test_a_view_reads_back_what_it_writes(base: dict, explanation: dict) -> None:
    view = View(**base, **explanation)
    assert View.parse(str(view)) == view


@given(st.one_of(st.text(), st.text("labelstopprobsgrdientsmooth:+,.0123456789e-", max_size=30)))
@example("probs:40")
@example("top:")
@example("top:0")
@example("labels:")
@example("labels:1")
@example("probs+")
@example("probs+gradient:3")
@example("probs+smoothgrad:0,1")
@example("probs+smoothgrad:3,.")
@example("probs+smoothgrad:3,0")
@example("probs+smoothgrad:3,1e999")
@example("probs+gradient+gradient")
@example("")
def test_garbage_is_refused_in_one_sentence_or_means_what_it_says(text: str) -> None:
    try:
        view = View.parse(text)
    except UsageError:
        return
    assert View.parse(str(view)) == view


def test_a_near_miss_is_named() -> None:
    with pytest.raises(UsageError, match="did you mean 'labels'"):
        View.parse("label")


def linear(outputs: int = 5, features: int = 3) -> tuple[nn.Linear, np.ndarray, np.ndarray]:
    layer = nn.Linear(features, outputs).double()
    with torch.no_grad():
        layer.weight.copy_(torch.randn(outputs, features, generator=torch.Generator().manual_seed(1)))
        layer.bias.copy_(torch.randn(outputs, generator=torch.Generator().manual_seed(2)))
    return layer, layer.weight.detach().numpy(), layer.bias.detach().numpy()


def softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@pytest.fixture
def x() -> Tensor:
    return torch.rand(300, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


HIDDEN = {
    "labels": {"probs", "logits", "gradients"},
    "top:2": {"logits", "gradients"},
    "probs": {"logits", "gradients"},
    "probs:2": {"logits", "gradients"},
    "logits": {"gradients"},
}


@pytest.mark.parametrize("view", HIDDEN)
def test_each_view_shows_its_part_and_hides_the_rest(view: str, x: Tensor) -> None:
    layer, weight, bias = linear()
    answer = Oracle(load_victim(layer, low=0.0, high=1.0), view).query(x)
    z = x.numpy() @ weight.T + bias
    p = softmax(z)
    assert len(answer) == 300
    if view != "probs:2":  # where rounding makes a tie, the label shown is the first of the tied
        assert np.array_equal(answer.labels.numpy(), z.argmax(1))
    for part in ("probs", "logits", "gradients"):
        if part in HIDDEN[view]:
            with pytest.raises(UsageError, match=f"the view '{view}' does not show"):
                getattr(answer, part)
    order = np.argsort(-p, axis=1)[:, :2]
    shown = np.ones_like(p, dtype=bool)
    if view == "logits":
        np.testing.assert_allclose(answer.logits, z, rtol=1e-12)
    if view in ("logits", "probs"):
        np.testing.assert_allclose(answer.probs, p, rtol=1e-12)
    if view == "probs:2":
        np.testing.assert_allclose(answer.probs, np.round(p, 2), atol=1e-15)
    if view == "top:2":
        shown = np.zeros_like(shown)
        np.put_along_axis(shown, order, True, axis=1)
        np.testing.assert_allclose(answer.probs, np.where(shown, p, 0), rtol=1e-12)
    if view == "labels":
        shown = z.argmax(1)[:, None] == np.arange(5)
    assert np.array_equal(answer.shown.numpy(), shown)


@pytest.mark.parametrize("decimals", [0, 1, 3, 6, 17])
def test_rounding_keeps_that_many_decimals_and_nothing_more(decimals: int) -> None:
    layer, weight, bias = linear()
    x = torch.rand(500, 3, generator=torch.Generator().manual_seed(4))
    answer = Oracle(load_victim(layer.float(), low=0.0, high=1.0), f"probs:{decimals}").query(x)
    p = softmax(x.numpy().astype(float) @ weight.T.astype(np.float32) + bias.astype(np.float32))
    assert torch.isfinite(answer.probs).all()
    assert np.abs(answer.probs.numpy() - p).max() <= 0.5 * 10.0**-decimals + 1e-6
    if decimals < 4:
        texts = {f"{value:.6g}" for value in answer.probs.flatten().tolist()}
        assert max(len(text.partition(".")[2]) for text in texts) <= decimals


def probabilities(model: nn.Module, x: Tensor) -> Tensor:
    return model(x).softmax(1)


def finite_differences(f, x: Tensor, step: float = 1e-6) -> Tensor:
    """d f_c / d x_i by central differences, [n, classes, features]."""
    columns = []
    for i in range(x.shape[1]):
        e = torch.zeros_like(x)
        e[:, i] = step
        columns.append((f(x + e) - f(x - e)) / (2 * step))
    return torch.stack(columns, dim=2)


@pytest.mark.parametrize("kind", ["labels", "top:2", "probs", "probs:1", "logits"])
def test_gradients_agree_with_finite_differences(kind: str, x: Tensor) -> None:
    model = nn.Sequential(nn.Linear(3, 7), nn.Tanh(), nn.Linear(7, 4)).double()
    oracle = Oracle(load_victim(model, low=0.0, high=1.0), f"{kind}+gradient")
    answer = oracle.query(x)
    with torch.no_grad():
        expected = finite_differences(model if kind == "logits" else lambda x: model(x).softmax(1), x)
    expected = expected * answer.shown[:, :, None]
    torch.testing.assert_close(answer.gradients, expected, atol=1e-8, rtol=1e-6)
    assert answer.gradients.shape == (300, 4, 3)
    entry = oracle.ledger.entry("attack")
    assert (entry.queries, entry.explanations, entry.work) == (300, 300, 300)
    assert all(parameter.grad is None for parameter in model.parameters())


class Quadratic(nn.Module):
    """Outputs x'Ax/2 and its negative: the gradient is linear, so SmoothGrad has mean Ax and variance A²(σw)²/N."""

    input_shape, low, high = (2,), -1.0, 3.0

    def __init__(self) -> None:
        super().__init__()
        self.A = nn.Parameter(torch.tensor([[2.0, 1.0], [1.0, -3.0]], dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        half = 0.5 * ((x @ self.A) * x).sum(1, keepdim=True)
        return torch.cat([half, -half], dim=1)


def test_smoothgrad_has_the_mean_and_spread_of_its_closed_form_and_counts_as_one_explanation() -> None:
    model, samples, sigma, width = Quadratic(), 5, 0.1, 4.0
    oracle = Oracle(load_victim(model), f"logits+smoothgrad:{samples},{sigma}")
    x = torch.tensor([[0.3, -0.7]], dtype=torch.float64).repeat(4000, 1)
    deviation = (oracle.query(x).gradients - torch.stack([x @ model.A, -(x @ model.A)], dim=1))[:, 0].detach()
    expected = model.A @ model.A * (sigma * width) ** 2 / samples
    covariance = deviation.T @ deviation / len(x)
    spread = expected.diagonal().sqrt().detach()
    assert (deviation.mean(0).abs() < 5 * spread / 4000**0.5).all()
    torch.testing.assert_close(covariance, expected.detach(), rtol=0.1, atol=0.02)
    entry = oracle.ledger.entry("attack")
    assert (entry.queries, entry.explanations, entry.work) == (4000, 4000, 4000 * samples)


def test_smoothgrad_of_a_linear_model_is_its_gradient(x: Tensor) -> None:
    layer, weight, _ = linear()
    answer = Oracle(load_victim(layer, low=0.0, high=1.0), "logits+smoothgrad:3,0.5").query(x)
    np.testing.assert_allclose(answer.gradients, np.broadcast_to(weight, (300, 5, 3)), rtol=1e-12)


def test_smoothgrad_repeats_itself_by_seed_and_by_position_only() -> None:
    def ask(seed: int) -> tuple[Tensor, Tensor]:
        oracle = Oracle(load_victim(Quadratic()), "logits+smoothgrad:2,0.1", seed=seed)
        x = torch.ones(2, 2, dtype=torch.float64)
        return oracle.query(x).gradients, oracle.query(x).gradients

    assert torch.equal(ask(1)[0], ask(1)[0])
    assert not torch.equal(*ask(1))
    assert not torch.equal(ask(1)[0], ask(2)[0])


def test_a_single_score_shows_its_sign_and_no_probabilities(x: Tensor) -> None:
    layer, weight, bias = linear(outputs=1)
    bias[:] = -weight.sum() / 2  # shared with the layer: the sign changes inside the box
    victim = load_victim(layer, low=0.0, high=1.0, outputs="logits")
    z = (x.numpy() @ weight.T + bias)[:, 0]
    assert {bool(value) for value in z > 0} == {True, False}
    answer = Oracle(victim, "logits+gradient").query(x)
    np.testing.assert_allclose(answer.logits[:, 0], z, rtol=1e-12)
    assert np.array_equal(answer.labels.numpy(), (z > 0).astype(int))
    np.testing.assert_allclose(answer.gradients[:, 0], np.broadcast_to(weight[0], x.shape))
    with pytest.raises(UsageError, match="does not show probabilities"):
        _ = answer.probs
    labels = Oracle(victim, "labels").query(x)
    assert np.array_equal(labels.labels.numpy(), (z > 0).astype(int))
    for view in ("probs", "top:1"):
        with pytest.raises(UsageError, match="a single score; use logits or labels"):
            Oracle(victim, view)


def test_views_a_victim_cannot_give_are_refused() -> None:
    probs = load_victim(nn.Sequential(nn.Linear(3, 4), nn.Softmax(1)), low=0.0, high=1.0)
    labels = load_victim(lambda x: (x[:, 0] > 0.5).astype(int), input_shape=(3,), low=0.0, high=1.0, classes=2)
    with pytest.raises(UsageError, match="the view logits needs a victim that returns logits, got probs"):
        Oracle(probs, "logits")
    with pytest.raises(UsageError, match="at most 4 classes, got 5"):
        Oracle(probs, "top:5")
    with pytest.raises(UsageError, match="the view probs needs a victim that returns logits or probs, got labels"):
        Oracle(labels, "probs")
    with pytest.raises(UsageError, match="needs a differentiable victim"):
        Oracle(labels, "labels+gradient")


class Cut(nn.Module):
    input_shape, low, high = (3,), 0.0, 1.0

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([x.detach().sum(1), x.detach().prod(1)], dim=1)


def test_a_module_without_a_gradient_says_so() -> None:
    with pytest.raises(VictimError, match="has no gradient at its input"):
        Oracle(load_victim(Cut()), "logits+gradient").query(torch.rand(2, 3))


@pytest.mark.parametrize(
    ("view", "other", "held"),
    [
        ("probs+gradient", "probs", True),
        ("probs", "probs+gradient", False),
        ("probs+gradient", "probs+gradient/sign", True),
        ("probs+gradient/sign", "probs+gradient", False),
        ("probs+gradient/top:5", "probs+gradient/top:5/sign", True),
        ("probs+gradient/top:5", "probs+gradient/top:3", True),
        ("probs+gradient/top:3", "probs+gradient/top:5", False),
        ("probs+gradient/abs", "probs+gradient/sign", False),
        ("probs+gradient", "probs+gradxinput/abs", True),
        ("probs+gradxinput", "probs+gradient", False),
        ("logits+gradient", "probs+gradient", True),
        ("logits+gradient/sign", "probs+gradient/sign", False),
        ("logits+integrated", "probs+integrated", False),
        ("probs+integrated", "labels+integrated", True),
        ("probs+integrated:5", "probs+integrated:6", False),
        ("labels+counterfactual", "probs+counterfactual", False),
        ("logits+counterfactual", "labels+counterfactual", True),
        ("probs+unheard-of", "probs+unheard-of", True),
        ("probs+unheard-of", "probs+unheard-of/sign", False),
    ],
)
def test_a_view_contains_what_can_be_computed_from_it(view: str, other: str, held: bool) -> None:
    assert contains(view, other) is held
