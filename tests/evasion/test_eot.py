"""Attacks on a model that answers differently every time."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from leakmeter.evasion.access import WhiteBox
from leakmeter.evasion.base import evade
from leakmeter.evasion.goal import Goal, cross_entropy


class Noisy(nn.Module):
    """Adds Gaussian noise to its input, from the global generator as layers like dropout do."""

    def __init__(self, inner: nn.Module, sigma: float) -> None:
        super().__init__()
        self.inner, self.sigma = inner, sigma

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x + self.sigma * torch.randn_like(x))


def test_more_draws_give_gradients_nearer_to_the_expected_one(trained, digits):
    x, y = digits[0][:10], digits[1][:10]
    model, goal = Noisy(trained, 0.3), Goal(y, targeted=False)
    torch.manual_seed(0)
    expected = WhiteBox(model, eot=2000, batch=2000).gradient(x, goal, cross_entropy)[1].flatten(1)

    def similarity(eot: int) -> float:
        gradient = WhiteBox(model, eot=eot).gradient(x, goal, cross_entropy)[1].flatten(1)
        return torch.cosine_similarity(gradient, expected).mean().item()

    assert similarity(1) + 0.1 < similarity(8) < similarity(64)
    assert similarity(64) > 0.9


def test_the_averaged_prediction_is_that_of_the_mean_probabilities(trained, digits):
    x = digits[0][:5]
    assert torch.allclose(WhiteBox(trained, eot=3).logits(x), trained(x).log_softmax(1), atol=1e-5)
    torch.manual_seed(0)
    averaged = WhiteBox(Noisy(trained, 0.3), eot=4).logits(x)
    torch.manual_seed(0)
    draws = Noisy(trained, 0.3)(x.repeat(4, 1, 1, 1)).softmax(1).view(4, 5, 10)
    assert torch.allclose(averaged.exp(), draws.mean(0), atol=1e-6)


@pytest.mark.parametrize(("name", "options"), [("pgd", {"eps": 0.12}), ("bim", {"eps": 0.12}), ("fgsm", {"eps": 0.12})])
def test_averaging_makes_attacks_on_a_noisy_model_stronger(trained, digits, name, options):
    x, y = digits
    model = Noisy(trained, 0.3)

    def accuracy(eot: int) -> float:
        examples = evade(name, model, x, y, norm="linf", eot=eot, **options).examples
        torch.manual_seed(1)
        votes = torch.stack([model(examples).softmax(1) for _ in range(100)]).mean(0)
        return (votes.argmax(1) == y).double().mean().item()

    assert accuracy(16) < accuracy(1)


def test_a_noisy_model_is_attacked_the_same_way_twice(trained, digits):
    x, y = digits[0][:10], digits[1][:10]
    model = Noisy(trained, 0.3)
    torch.manual_seed(0)
    state = torch.get_rng_state()
    first = evade("pgd", model, x, y, eps=0.1, eot=4, seed=7)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(1)
    second = evade("pgd", model, x, y, eps=0.1, eot=4, seed=7)
    assert torch.equal(first.examples, second.examples)
    assert torch.equal(first.success, second.success)
