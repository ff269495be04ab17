"""Transfer beside its controls: closed forms on linear models, and a copy that cannot fool by accident."""

import pytest
import torch
from torch import nn

import leakmeter as lm
from leakmeter.evaluation.transfer import measure_transfer


def linear(weight: list[float]) -> nn.Module:
    """Class 1 where weight · x > 0, class 0 elsewhere."""
    net = nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[-w for w in weight], weight]))
    return net


@pytest.fixture
def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.stack([torch.linspace(-0.9, 0.9, 19), torch.zeros(19)], 1)
    x = x[x[:, 0] != 0]
    return x, (x[:, 0] > 0).long()


def victim():
    return lm.load_victim(linear([1.0, 0.0]), input_shape=(2,), low=-1.0, high=1.0)


@pytest.mark.parametrize("attack", ["fgsm", "bim", "pgd"])
def test_a_perfect_copy_flips_exactly_what_is_within_reach(attack: str, inputs) -> None:
    x, y = inputs
    eps = 0.35
    thief = measure_transfer(attack, linear([1.0, 0.0]), victim(), x, y, norm="linf", eps=eps)
    within = float((x[:, 0].abs() < eps).double().mean())
    assert thief.transfer.copy_rate.value == pytest.approx(within)
    assert thief.transfer.copy_rate.n == len(x)


def test_a_copy_that_looks_elsewhere_flips_nothing(inputs) -> None:
    x, y = inputs
    blind = linear([0.0, 1.0])
    thief = measure_transfer("fgsm", blind, victim(), x, y, norm="linf", eps=0.35, white_box=linear([1.0, 0.0]))
    assert thief.transfer.copy_rate.value == 0
    assert thief.transfer.white_box_rate.value > 0.3


def test_noise_flips_about_half_of_what_is_within_reach(inputs) -> None:
    x, y = (column.repeat_interleave(200, 0) for column in inputs)
    thief = measure_transfer("fgsm", linear([1.0, 0.0]), victim(), x, y, norm="linf", eps=0.35)
    within = float((x[:, 0].abs() < 0.35).double().mean())
    assert thief.transfer.noise_rate.value == pytest.approx(within / 2, abs=0.03)


def test_only_inputs_the_victim_gets_right_count(inputs) -> None:
    x, y = inputs
    wrong = y.clone()
    wrong[:5] = 1 - wrong[:5]
    thief = measure_transfer("fgsm", linear([1.0, 0.0]), victim(), x, wrong, norm="linf", eps=0.1)
    assert thief.transfer.copy_rate.n == len(x) - 5
    assert thief.rows.tolist() == list(range(5, len(x)))


def test_scoring_is_on_the_evaluation_account(inputs) -> None:
    x, y = inputs
    oracle = lm.Oracle(victim(), "labels", budget=1)
    measure_transfer("fgsm", linear([1.0, 0.0]), oracle, x, y, norm="linf", eps=0.1)
    assert oracle.ledger.spent("attack") == 0
    assert oracle.ledger.spent("evaluation") == 3 * len(x)


def test_a_victim_that_is_always_wrong_cannot_be_judged(inputs) -> None:
    x, y = inputs
    with pytest.raises(lm.LeakmeterError, match="gets none of these inputs right"):
        measure_transfer("fgsm", linear([1.0, 0.0]), victim(), x, 1 - y, norm="linf", eps=0.1)
