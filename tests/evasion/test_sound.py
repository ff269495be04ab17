"""No attack beats a sound lower bound: intervals through a small ReLU network, and its Lipschitz constant."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from leakmeter.evasion.base import evade


def linear_layers(model: nn.Module) -> list[nn.Linear]:
    return [layer for layer in model.modules() if isinstance(layer, nn.Linear)]


def interval_margin(model: nn.Module, x: Tensor, y: Tensor, eps: float) -> Tensor:
    """A lower bound of the true class' lead anywhere within linf `eps`, by interval arithmetic in double precision."""
    center, radius = x.flatten(1).double(), torch.full_like(x.flatten(1), eps).double()
    *hidden, last = linear_layers(model)
    for layer in hidden:
        center, radius = layer_interval(center, radius, layer.weight, layer.bias)
        low, high = (center - radius).relu(), (center + radius).relu()
        center, radius = (low + high) / 2, (high - low) / 2
    # The differences of logits are one more linear layer: tighter than subtracting two intervals.
    weight = last.weight.double()[y][:, None] - last.weight.double()[None]
    bias = last.bias.double()[y][:, None] - last.bias.double()[None]
    lead = (weight @ center[:, :, None])[:, :, 0] + bias - (weight.abs() @ radius[:, :, None])[:, :, 0]
    return lead.scatter(1, y[:, None], torch.inf).amin(1)


def layer_interval(center: Tensor, radius: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    return center @ weight.double().T + bias.double(), radius @ weight.double().abs().T


def lipschitz_radius(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """An l2 radius without adversarial examples: the lead, over sqrt(2) times the product of spectral norms."""
    constant = math.prod(torch.linalg.matrix_norm(layer.weight.double(), 2).item() for layer in linear_layers(model))
    logits = model(x).double()
    lead = logits.gather(1, y[:, None])[:, 0] - logits.scatter(1, y[:, None], -torch.inf).amax(1)
    return lead / (math.sqrt(2) * constant)


@pytest.mark.parametrize("name", ["fgsm", "bim", "mifgsm", "pgd"])
def test_no_gradient_attack_succeeds_inside_the_interval_bound(trained, digits, name):
    x, y = digits
    with torch.no_grad():
        eps = next(eps for eps in (0.1, 0.05, 0.02, 0.01) if (interval_margin(trained, x, y, eps) > 0).sum() >= 10)
        safe = interval_margin(trained, x, y, eps) > 0
    assert not evade(name, trained, x, y, norm="linf", eps=eps).success[safe].any()
    assert evade(name, trained, x, y, norm="linf", eps=0.4).rate > 0.5  # so that the line above can fail


@pytest.mark.parametrize(("name", "options"), [("cw", {"steps": 100}), ("boundary", {"steps": 300})])
def test_no_minimal_attack_comes_nearer_than_the_lipschitz_bound(trained, digits, name, options):
    x, y = digits
    with torch.no_grad():
        radius = lipschitz_radius(trained, x, y)
    found = evade(name, trained, x, y, **options)
    assert found.rate > 0.9
    assert (found.distance[found.success] >= radius[found.success]).all()
