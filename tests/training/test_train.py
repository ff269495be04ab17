"""Each technique's loss against its formula, and what it does to a small network."""

from __future__ import annotations

import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

import leakmeter as lm
from leakmeter.errors import UsageError
from leakmeter.training.gaussian import Gaussian
from leakmeter.training.loop import Recipe
from leakmeter.training.madry import Madry
from leakmeter.training.plain import Plain
from leakmeter.training.stability import Stability
from leakmeter.training.trades import Trades
from leakmeter.training.train import TECHNIQUES

QUICK = Recipe(epochs=10, batch=50, lr=1e-2, schedule="cosine")


def network(seed: int = 0, *, dropout: float = 0.0) -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Dropout(dropout), nn.Linear(64, 10))


@pytest.fixture(scope="module")
def digits() -> tuple[torch.Tensor, torch.Tensor]:
    x, y = load_digits(return_X_y=True)
    return torch.tensor(x / 16, dtype=torch.float32).view(-1, 1, 8, 8), torch.tensor(y)


@pytest.fixture
def batch(digits):
    return digits[0][:50], digits[1][:50]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def noise_like(x: torch.Tensor) -> torch.Tensor:
    return torch.randn(x.shape, generator=generator())


def nll(log_probs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return -log_probs[torch.arange(len(y)), y].mean()


def test_plain_and_gaussian_are_cross_entropy(batch):
    model, (x, y) = network(), batch
    torch.testing.assert_close(Plain()(model, batch, generator()), nll(model(x).log_softmax(1), y))
    noisy = model(x + 0.7 * noise_like(x)).log_softmax(1)
    torch.testing.assert_close(Gaussian(sigma=0.7)(model, batch, generator()), nll(noisy, y))


def test_stability_is_the_papers_formula(batch):
    model, (x, y) = network(), batch
    clean, noisy = model(x), model(x + 0.7 * noise_like(x))
    term = -(clean.softmax(1) * noisy.log_softmax(1)).sum(1).mean()
    expected = nll(clean.log_softmax(1), y) + 3 * term
    torch.testing.assert_close(Stability(sigma=0.7, gamma=3)(model, batch, generator()), expected)


def test_stability_lets_the_gradient_through_its_target(batch):
    model, (x, _) = network(), batch
    shift = torch.zeros(10, requires_grad=True)

    class Shifted(nn.Module):
        """Moves the logits of clean inputs only."""

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return model(inputs) + shift * bool(torch.equal(inputs, x))

    slopes = []
    for gamma in (0.0, 2.0):
        loss = Stability(gamma=gamma)(Shifted(), batch, generator())
        slopes.append(torch.autograd.grad(loss, shift)[0])
    assert not torch.allclose(*slopes)


@pytest.mark.parametrize(("norm", "eps"), [("linf", 0.1), ("l2", 1.0)])
@pytest.mark.parametrize("technique", [Madry, Trades])
def test_the_worst_neighbour_is_near_inside_and_worse(batch, technique, norm, eps):
    model, (x, y) = network(), batch
    model = lm.train("plain", model, (x, y), recipe=Recipe(steps=100, batch=50, lr=1e-2), seed=0)
    seen = []
    model.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0].detach()))
    loss = technique(norm=norm, eps=eps)(model, batch, generator())
    worst = seen[-1]
    offset = (worst - x).flatten(1)
    distance = offset.abs().amax(1) if norm == "linf" else offset.norm(dim=1)
    assert (distance <= eps * (1 + 1e-6)).all()
    assert worst.min() >= 0
    assert worst.max() <= 1
    assert nll(model(worst).log_softmax(1), y) > 2 * nll(model(x).log_softmax(1), y)
    assert torch.isfinite(loss)


def test_trades_is_the_papers_formula(batch):
    model, (x, y) = network(), batch
    seen = []
    model.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0].detach()))
    loss = Trades(beta=4)(model, batch, generator())
    worst = seen[-1]
    p, q = model(x).softmax(1), model(worst).softmax(1)
    divergence = (p * (p / q).log()).sum(1).mean()
    torch.testing.assert_close(loss, nll(model(x).log_softmax(1), y) + 4 * divergence)


def test_trades_has_no_nan_where_probabilities_underflow(batch):
    model = network()
    with torch.no_grad():
        model[-1].weight.mul_(1e5)
    loss = Trades()(model, batch, generator())
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())


def test_the_inner_climb_puts_dropout_back(batch):
    model = network(dropout=0.5).train()
    Madry()(model, batch, generator())
    assert all(part.training for part in model.modules())


@pytest.mark.parametrize("name", list(TECHNIQUES))
def test_every_technique_learns_and_repeats_itself(digits, name):
    x, y = digits
    options = {"eps": 0.1, "steps": 3} if name in ("madry", "trades") else {}
    models = [lm.train(name, network(), (x[:1500], y[:1500]), recipe=QUICK, seed=seed, **options) for seed in (0, 0)]
    weights = [torch.cat([p.flatten() for p in model.parameters()]) for model in models]
    assert torch.equal(weights[0], weights[1])
    assert not models[0].training
    with torch.inference_mode():
        assert (models[0](x[1500:]).argmax(1) == y[1500:]).float().mean() > 0.75


@pytest.mark.parametrize("name", ["gaussian", "stability"])
def test_noise_in_training_pays_under_noise(digits, name):
    x, y = digits
    noisy = x[1500:] + 0.4 * torch.randn(x[1500:].shape, generator=generator(1))
    plain = lm.train("plain", network(), (x[:1500], y[:1500]), recipe=QUICK)
    steady = lm.train(name, network(), (x[:1500], y[:1500]), recipe=QUICK, sigma=0.4)
    with torch.inference_mode():
        right = [(model(noisy).argmax(1) == y[1500:]).float().mean().item() for model in (plain, steady)]
    assert right[1] > right[0] + 0.05


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("stabilty", {}, "did you mean 'stability'"),
        ("plain", {"sigma": 0.5}, "no option 'sigma'"),
        ("stability", {"gama": 1.0}, "did you mean 'gamma'"),
        ("gaussian", {"sigma": -1.0}, "'sigma': .*, got -1.0"),
        ("plain", {"epochs": 1, "recipe": Recipe(epochs=1)}, "epochs or a recipe"),
    ],
)
def test_says_what_is_wrong(batch, name, options, message):
    with pytest.raises(UsageError, match=message):
        lm.train(name, network(), batch, **options)
