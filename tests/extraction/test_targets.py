import hypothesis.strategies as st
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import given, settings

from leakmeter.extraction.targets import (
    answered_logits,
    answered_probs,
    interval_loss,
    intervals,
    kl_loss,
    l1_loss,
    recover_logits,
    squared_loss,
)
from leakmeter.oracle.answer import Answer, present
from leakmeter.oracle.view import View

VIEWS = ["logits", "probs", "probs:3", "probs:1", "top:1", "top:3"]


def make_logits(seed: int, scale: float, n: int = 20, classes: int = 6) -> torch.Tensor:
    return torch.randn(n, classes, generator=torch.Generator().manual_seed(seed)) * scale


def answer_to(logits: torch.Tensor, text: str) -> Answer:
    view = View.parse(text)
    return Answer(view, logits.shape[1], present(view, logits, "logits"))


@given(st.integers(0, 1000), st.floats(0.01, 20))
@settings(max_examples=40)
def test_logits_come_back_up_to_their_mean(seed: int, scale: float) -> None:
    logits = make_logits(seed, scale).double()
    recovered = recover_logits(logits.softmax(1), floor=torch.finfo(torch.float64).tiny)
    assert torch.allclose(recovered, logits - logits.mean(1, keepdim=True), atol=1e-9)


def test_recovery_is_finite_and_keeps_the_order_when_probabilities_underflow() -> None:
    probs = torch.tensor([[0.0, 3.0, 400.0, -400.0]]).softmax(1)
    assert (probs == 0).sum() == 3
    recovered = recover_logits(probs)
    assert recovered.isfinite().all()
    assert recovered.argmax() == 2
    assert recovered.sum().abs() < 1e-4


@pytest.mark.parametrize("text", VIEWS)
@given(seed=st.integers(0, 1000), scale=st.floats(0.1, 60))
@settings(max_examples=30)
def test_the_truth_lies_in_the_interval_of_every_view(text: str, seed: int, scale: float) -> None:
    logits = make_logits(seed, scale)
    low, high = intervals(answer_to(logits, text))
    truth = logits.log_softmax(1)
    readable = truth > -80  # below that float32 probabilities underflow, and the floor stands for them
    assert (truth <= high + 1e-4)[readable].all()
    assert (truth >= low - 1e-4)[readable].all()
    assert not high.isnan().any()
    assert interval_loss(logits.clamp_min(-80), low, high).isfinite()


@pytest.mark.parametrize("text", VIEWS)
def test_the_victim_itself_has_no_interval_loss_and_another_model_has(text: str) -> None:
    logits = make_logits(1, 2.0)
    low, high = intervals(answer_to(logits, text))
    assert interval_loss(logits, low, high) < 1e-5
    assert interval_loss(logits + 5, low, high) < 1e-5  # a constant changes no probability
    assert interval_loss(-logits, low, high) > 0.1


def test_interval_loss_of_exact_answers_is_l1_between_log_probabilities() -> None:
    logits, other = make_logits(1, 2.0), make_logits(2, 2.0)
    expected = (logits.softmax(1).log() - other.softmax(1).log()).abs().mean()
    assert torch.allclose(interval_loss(other, *intervals(answer_to(logits, "probs"))), expected, atol=1e-5)


@pytest.mark.parametrize("text", [*VIEWS, "labels"])
def test_guessed_logits_are_centred_finite_and_name_the_class_answered(text: str) -> None:
    logits = make_logits(3, 30.0)
    answer = answer_to(logits, text)
    guess = answered_logits(answer)
    assert guess.isfinite().all()
    assert guess.mean(1).abs().max() < 1e-3
    top = guess.gather(1, answer.labels[:, None])[:, 0]
    assert torch.equal(top, guess.amax(1))


def test_hidden_probabilities_share_what_is_left_and_stay_below_the_shown() -> None:
    probs = torch.tensor([[0.5, 0.3, 0.1, 0.06, 0.04]])
    answer = answer_to(probs.log(), "top:2")
    assert torch.allclose(answered_probs(answer), torch.tensor([[0.5, 0.3, 0.2 / 3, 0.2 / 3, 0.2 / 3]]))
    even = answer_to(torch.zeros(1, 4), "top:1")
    assert torch.allclose(answered_probs(even), torch.full((1, 4), 0.25))


def test_labels_become_one_hot() -> None:
    answer = answer_to(torch.tensor([[0.0, 2.0, 1.0]]), "labels")
    assert torch.equal(answered_probs(answer), torch.tensor([[0.0, 1.0, 0.0]]))


@pytest.mark.parametrize("temperature", [1.0, 3.0, 10.0])
def test_temperature_kl_agrees_with_torch(temperature: float) -> None:
    logits, target = make_logits(1, 3.0), make_logits(2, 3.0)
    expected = F.kl_div((logits / temperature).log_softmax(1), (target / temperature).softmax(1), reduction="batchmean")
    assert torch.allclose(kl_loss(logits, target, temperature), temperature**2 * expected, atol=1e-5)


def test_squared_logits_are_the_limit_of_high_temperatures() -> None:
    logits, target = make_logits(1, 3.0).double(), make_logits(2, 3.0).double()
    squared = squared_loss(logits + 5, target - target.mean(1, keepdim=True))
    assert torch.allclose(kl_loss(logits, target, 1e4), squared / 2, rtol=1e-3)


def test_l1_is_the_mean_absolute_difference() -> None:
    assert l1_loss(torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 4.0]])) == 1.5
