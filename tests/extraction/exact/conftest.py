from collections.abc import Callable

import pytest
import torch
from torch import nn

import leakmeter as lm

Maker = Callable[..., nn.Sequential]


def network(h: int, d: int, outputs: int = 1, *, seed: int = 0, dtype: torch.dtype = torch.float64) -> nn.Sequential:
    """Unit rows, standard normal weights and biases."""
    generator = torch.Generator().manual_seed(seed)
    net = nn.Sequential(nn.Linear(d, h), nn.ReLU(), nn.Linear(h, outputs)).to(dtype)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
        net[0].weight /= net[0].weight.norm(dim=1, keepdim=True)
    return net


def without_biases(net: nn.Sequential) -> nn.Sequential:
    with torch.no_grad():
        net[0].bias.zero_()
        net[2].bias.zero_()
    return net


def oracle(net: nn.Module, view: str, d: int, *, box: bool = False, budget: int | None = None) -> lm.Oracle:
    low, high = (0.0, 1.0) if box else (None, None)
    return lm.Oracle(lm.load_victim(net, input_shape=(d,), low=low, high=high, outputs="logits"), view, budget)


@pytest.fixture(name="network")
def _network() -> Maker:
    return network


@pytest.fixture(name="without_biases")
def _without_biases() -> Callable[[nn.Sequential], nn.Sequential]:
    return without_biases


@pytest.fixture(name="oracle")
def _oracle() -> Callable[..., lm.Oracle]:
    return oracle


@pytest.fixture(autouse=True)
def _same_test_points() -> None:
    torch.manual_seed(0)
