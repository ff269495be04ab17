"""On a linear model the nearest adversarial example is known in closed form: attacks must find just that."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from leakmeter.evasion.base import evade


@pytest.fixture(scope="module")
def model() -> nn.Module:
    layer = nn.Linear(12, 4)
    with torch.no_grad():
        layer.weight.copy_(torch.randn(4, 12, generator=torch.Generator().manual_seed(1)))
        layer.bias.zero_()
    return layer


@pytest.fixture(scope="module")
def x() -> Tensor:
    return torch.rand(40, 12, generator=torch.Generator().manual_seed(2))


def distances(model: nn.Linear, x: Tensor, y: Tensor, p: float) -> Tensor:
    """To each other class' half-space; p is the dual of the norm of the attack."""
    logits = model(x).detach()
    gaps = logits.gather(1, y[:, None]) - logits
    normals = (model.weight[y][:, None] - model.weight[None]).detach().norm(p=p, dim=2)
    return (gaps / normals).scatter(1, y[:, None], torch.inf)


@pytest.mark.parametrize(("norm", "dual"), [("linf", 1.0), ("l2", 2.0)])
@pytest.mark.parametrize(("name", "options"), [("bim", {"loss": "margin"}), ("pgd", {})])
def test_gradient_attacks_break_just_what_can_be_broken(model, x, name, options, norm, dual):
    y = model(x).argmax(1)
    nearest = distances(model, x, y, dual).amin(1)
    eps = nearest.median().item()
    found = evade(name, model, x, y, norm=norm, eps=eps, low=None, high=None, steps=40, **options)
    assert not found.success[nearest > eps * 1.001].any()
    assert found.success[nearest < eps * 0.95].all()


@pytest.mark.parametrize(("norm", "dual"), [("linf", 1.0), ("l2", 2.0)])
def test_fgsm_with_a_margin_breaks_what_its_runner_up_allows(model, x, norm, dual):
    y = model(x).argmax(1)
    runner_up = model(x).detach().scatter(1, y[:, None], -torch.inf).argmax(1)
    reach = distances(model, x, y, dual).gather(1, runner_up[:, None])[:, 0]
    eps = reach.median().item()
    found = evade("fgsm", model, x, y, norm=norm, eps=eps, low=None, high=None, loss="margin")
    assert found.success[reach < eps * 0.999].all()
    assert not found.success[distances(model, x, y, dual).amin(1) > eps * 1.001].any()


@pytest.mark.parametrize(
    ("name", "options", "slack"),
    [
        ("cw", {"steps": 300, "low": None, "high": None}, 1.01),
        ("boundary", {"steps": 3000, "low": -9, "high": 9}, 1.05),
    ],
)
def test_minimal_attacks_find_the_nearest_example(model, x, name, options, slack):
    y = model(x).argmax(1)
    exact = distances(model, x, y, 2.0).amin(1).double()
    found = evade(name, model, x, y, **options)
    assert found.success.all()
    assert (found.distance >= exact * (1 - 1e-4)).all()
    assert (found.distance / exact).median() <= slack


def test_a_targeted_search_finds_the_nearest_point_of_the_target(model, x):
    y = model(x).argmax(1)
    found = evade("cw", model, x, y, target="second", low=None, high=None, steps=300)
    second = model(x).detach().scatter(1, y[:, None], -torch.inf).argmax(1)
    assert found.success.all()
    assert torch.equal(model(found.examples).argmax(1), second)
    bound = distances(model, x, y, 2.0).gather(1, second[:, None])[:, 0].double()
    assert (found.distance >= bound * (1 - 1e-4)).all()  # other classes may stand in between
    assert (found.distance <= bound * 1.01).double().mean() > 0.5
