"""Scores against the same numbers computed by hand with numpy, scipy and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import softmax
from scipy.stats import entropy
from sklearn.metrics import accuracy_score, confusion_matrix
from statsmodels.stats.proportion import proportion_confint
from torch import Tensor, nn

from leakmeter.errors import Inconclusive, UsageError
from leakmeter.evaluation.score import predict, reference, score
from leakmeter.oracle.oracle import Oracle
from leakmeter.victims.load import load_victim

BOX = {"low": 0.0, "high": 1.0}


def net(seed: int, outputs: int = 4) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, outputs)).eval()


@pytest.fixture
def data() -> tuple[Tensor, Tensor]:
    draws = torch.Generator().manual_seed(0)
    return torch.rand(1000, 3, generator=draws), torch.randint(0, 4, (1000,), generator=draws)


def logits(model: nn.Module, x: Tensor) -> np.ndarray:
    with torch.no_grad():
        return model(x).double().numpy()


@pytest.mark.parametrize("outputs", ["logits", "probs"])
def test_every_measure_by_hand(outputs: str, data: tuple[Tensor, Tensor]) -> None:
    x, y = data
    inner, copy = net(0), net(1)
    victim = load_victim(inner if outputs == "logits" else nn.Sequential(inner, nn.Softmax(1)), input_shape=(3,), **BOX)
    result = score(copy, victim, data)
    z, s = logits(inner, x), logits(copy, x)
    p, q = softmax(z, axis=1), softmax(s, axis=1)
    assert result.n == 1000
    assert result.fidelity == accuracy_score(z.argmax(1), s.argmax(1))
    assert result.accuracy == accuracy_score(y, s.argmax(1))
    assert result.victim_accuracy == accuracy_score(y, z.argmax(1))
    assert result.kl == pytest.approx(entropy(p, q, axis=1).mean(), rel=1e-5)
    error = np.abs(z - s).max() if outputs == "logits" else np.abs(p - q).max()
    assert result.max_error == pytest.approx(error, rel=1e-5)
    for rate, interval in ((result.fidelity, result.fidelity_interval), (result.accuracy, result.accuracy_interval)):
        low, high = proportion_confint(round(rate * 1000), 1000, method="beta")
        assert (interval.low, interval.high) == pytest.approx((low, high))
        assert (interval.n, interval.method) == (1000, "clopper-pearson")


def test_a_perfect_copy_is_perfect(data: tuple[Tensor, Tensor]) -> None:
    result = score(net(0), load_victim(net(0), **BOX), data)
    assert (result.fidelity, result.kl) == (1.0, pytest.approx(0, abs=1e-12))
    assert result.max_error < 1e-6


def test_what_cannot_be_measured_is_none(data: tuple[Tensor, Tensor]) -> None:
    x, _ = data
    labels = load_victim(lambda x: (x[:, 0] > 0.5).astype(int), input_shape=(3,), classes=4, outputs="labels", **BOX)
    result = score(net(1), labels, x)
    assert (result.accuracy, result.accuracy_interval, result.victim_accuracy) == (None, None, None)
    assert (result.kl, result.max_error) == (None, None)
    assert result.fidelity == accuracy_score(x[:, 0] > 0.5, logits(net(1), x).argmax(1))


def test_a_single_score_is_judged_by_its_sign(data: tuple[Tensor, Tensor]) -> None:
    x, _ = data
    inner, copy = net(0, outputs=1), net(2, outputs=1)
    result = score(copy, load_victim(inner, outputs="logits", **BOX), x)
    assert result.fidelity == accuracy_score(logits(inner, x) > 0, logits(copy, x) > 0)
    assert result.kl is None


def test_scoring_asks_once_and_on_its_own_account(data: tuple[Tensor, Tensor]) -> None:
    oracle = Oracle(load_victim(net(0), **BOX), "labels", budget=0)
    judge = reference(oracle, data)
    results = [judge.score(net(seed)) for seed in (1, 1, 2)]
    assert (oracle.ledger.spent("attack"), oracle.ledger.spent("evaluation")) == (0, 1000)
    assert results[0] == results[1] != results[2]
    assert results[0].kl is not None, "the owner sees all its victim gives, whatever the attack's view"


def test_a_copy_is_scored_in_evaluation_mode_and_left_as_it_was(data: tuple[Tensor, Tensor]) -> None:
    x, _ = data
    copy = nn.Sequential(net(1), nn.Dropout(0.5)).train()
    assert torch.equal(predict(copy, x), predict(copy, x))
    assert copy.training
    assert not predict(copy, x).is_inference()


def test_wrong_labels_and_broken_copies_are_named(data: tuple[Tensor, Tensor]) -> None:
    x, y = data
    victim = load_victim(net(0), **BOX)
    with pytest.raises(UsageError, match=r"one label for each of 1000 test inputs, got labels of shape \(3,\)"):
        score(net(1), victim, (x, y[:3]))
    with pytest.raises(UsageError, match=r"expected outputs of shape \(1000, 4\) from the substitute, got \(1000, 1\)"):
        score(net(1, outputs=1), victim, data)
    diverged = net(1)
    with torch.no_grad():
        diverged[0].weight.fill_(torch.nan)
    with pytest.raises(Inconclusive, match="its training diverged"):
        score(diverged, victim, data)
    with pytest.raises(UsageError, match="expected a victim made by load_victim, got Sequential"):
        score(net(1), net(0), data)  # type: ignore[arg-type]


def test_class_by_class_adds_up_to_the_whole(data: tuple[Tensor, Tensor]) -> None:
    x, _ = data
    truth, found = logits(net(0), x).argmax(1), logits(net(1), x).argmax(1)
    found_by = reference(load_victim(net(0), **BOX), data).class_scores(net(1))
    table = confusion_matrix(truth, found, labels=range(4))
    assert [each.n for each in found_by] == table.sum(1).tolist()
    assert [each.same for each in found_by] == table.diagonal().tolist()
    assert sum(each.same for each in found_by) / 1000 == score(net(1), load_victim(net(0), **BOX), data).fidelity


def test_a_single_score_has_two_classes(data: tuple[Tensor, Tensor]) -> None:
    found = reference(load_victim(net(0, 1), outputs="logits", **BOX), data).class_scores(net(0, 1))
    assert [each.same for each in found] == [each.n for each in found]
    assert len(found) == 2
