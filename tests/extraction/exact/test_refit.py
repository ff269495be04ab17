"""What the algebra left open is learned from the answers it was given."""

import pytest
import torch
from torch import Tensor, nn

import leakmeter as lm
from leakmeter.extraction.exact.copy import hand_over_deep
from leakmeter.extraction.exact.output import Known
from leakmeter.extraction.exact.refit import Answers, completed, learn, misses, refit
from leakmeter.extraction.exact.stack import Layer, Stack


@pytest.fixture(name="net")
def _net() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 3)).double()


def copied(net: nn.Sequential, lacking: int = 0) -> Known:
    """The network without some units of its second layer."""
    first, second, last = (net[i] for i in (0, 2, 4))
    weight, bias = second.weight.detach()[lacking:], second.bias.detach()[lacking:]
    layers = [Layer.of(first.weight.detach(), first.bias.detach()), Layer.of(weight, bias)]
    return Known(Stack(layers), last.weight.detach()[:, lacking:], last.bias.detach(), torch.zeros(0, 6))


def told(net: nn.Sequential, n: int = 3000) -> Answers:
    x = 3 * torch.rand(n, 6, dtype=torch.float64)
    gradients: Tensor = torch.func.vmap(torch.func.jacrev(lambda row: net(row[None])[0]))(x)
    return Answers.of(x, net(x).detach(), gradients.detach(), torch.arange(n) // 20)


def test_units_that_are_added_change_nothing_before_they_have_learned(net: nn.Sequential) -> None:
    answers = told(net, 200)
    student = completed(copied(net), answers.units)
    assert torch.allclose(student(answers.x), answers.values, atol=1e-4)
    copy = student.handed_over(torch.eye(3, dtype=torch.float64), answers.units)
    x = torch.randn(50, 6, dtype=torch.float64)
    assert torch.allclose(copy(x), net(x), atol=1e-5)


def test_missing_units_are_learned_and_known_weights_stay(net: nn.Sequential) -> None:
    answers, known = told(net), copied(net, lacking=3)
    eye = torch.eye(3, dtype=torch.float64)
    before = misses(hand_over_deep(known, eye), answers, eye)[1]
    student = completed(known, answers.units)
    rows = student.layers[0].weight.detach()[:12].clone()
    learn(student, answers, seed=0)
    assert torch.equal(student.layers[0].weight.detach()[:12], rows)
    assert misses(student.handed_over(eye, answers.units), answers, eye)[1] < 0.5 * before


def test_a_copy_that_is_right_is_not_replaced(net: nn.Sequential) -> None:
    answers, eye = told(net), torch.eye(3, dtype=torch.float64)
    copy = hand_over_deep(copied(net), eye)
    assert refit(copy, copied(net), answers, eye, seed=0) is copy


def test_a_victim_of_another_kind_is_handed_over_as_well_as_it_was_learned() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4)).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter *= 2
    victim = lm.load_victim(net, input_shape=(4,), low=0.0, high=1.0, outputs="logits")
    copy = lm.extract("exact", lm.Oracle(victim, "logits+gradient", budget=3000), seed=0)
    x = torch.rand(2000, 4, dtype=torch.float64)
    assert not copy.findings.certificate.exact
    assert lm.score(copy.substitute, victim, x).fidelity > 0.97
