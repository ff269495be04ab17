"""The dual bound against a linear program, against attacks, and against what a layer says of itself."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from leakmeter.certificates.dual import dual_certified, dual_loss, worst_margins
from leakmeter.errors import NotApplicable, UsageError
from leakmeter.evasion.base import evade
from leakmeter.models.inputs import Normalize
from leakmeter.studies.stn._program import off_by, random_network


@pytest.mark.parametrize("seed", range(20))
def test_it_is_the_optimum_of_the_program_with_two_parallel_lines(seed: int) -> None:
    found = off_by(seed)
    assert found["difference"] <= 1e-6
    assert found["under_hull"][0] >= -1e-6


def test_the_hull_is_tighter_where_units_switch() -> None:
    assert max(off_by(seed)["under_hull"][1] for seed in (19, 38)) > 1e-3


def convolutional(seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(
        Normalize([0.2, 0.5], [0.3, 0.4]),
        nn.Conv2d(2, 3, 4, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(3, 4, 3, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16, 8),
        nn.ReLU(),
        nn.Linear(8, 3),
    ).double()


def as_dense(network: nn.Sequential, shape: tuple[int, ...]) -> nn.Sequential:
    """The same function with every affine stretch as one matrix."""
    layers: list[nn.Module] = [nn.Flatten()]
    stretch: list[nn.Module] = []
    for layer in [*network, nn.ReLU()]:
        if not isinstance(layer, nn.ReLU):
            stretch.append(layer)
            continue
        part, zero = nn.Sequential(*stretch), torch.zeros(1, *shape, dtype=torch.float64)
        out = part(zero)
        size = zero.numel()
        matrix = nn.Linear(size, out.numel()).double()
        with torch.no_grad():
            rows = part(torch.eye(size, dtype=torch.float64).reshape(size, *shape)).flatten(1) - out.flatten()
            matrix.weight.copy_(rows.T)
            matrix.bias.copy_(out.flatten())
        layers += [matrix, nn.ReLU()]
        shape, stretch = tuple(out.shape[1:]), []
    return nn.Sequential(*layers[:-1])


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_convolutions_are_matrices(norm: str) -> None:
    with torch.random.fork_rng():
        network = convolutional(0)
    x = torch.rand(3, 2, 11, 11, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    y = torch.tensor([0, 1, 2])
    same = as_dense(network, (2, 11, 11))
    assert torch.allclose(network(x), same(x))
    assert torch.allclose(worst_margins(network, x, y, 0.02, norm), worst_margins(same, x, y, 0.02, norm), atol=1e-9)


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("eps", [0.0, 0.05, 0.3])
def test_no_point_of_the_ball_is_below_the_bound(norm: str, eps: float) -> None:
    network = random_network([6, 12, 12, 4], 3)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(20, 6, generator=generator, dtype=torch.float64)
    y = network(x).argmax(1)
    bound = worst_margins(network, x, y, eps, norm)
    for _ in range(200):
        step = torch.randn(x.shape, generator=generator, dtype=torch.float64)
        step = step.sign() * eps if norm == "linf" else eps * step / step.norm(dim=1, keepdim=True)
        scores = network(x + step)
        assert (scores.gather(1, y[:, None]) - scores >= bound - 1e-9).all()
    if eps == 0:
        scores = network(x)
        assert torch.allclose(bound, scores.gather(1, y[:, None]) - scores)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_no_attack_flips_what_is_certified(norm: str) -> None:
    network = random_network([6, 16, 16, 3], 0)
    x = torch.rand(100, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    y, eps = network(x).argmax(1), 0.1
    certified = dual_certified(network, x, y, eps, norm)
    assert 0 < int(certified.sum()) < 100
    found = evade("pgd", network, x, y, norm=norm, eps=eps, seed=0, steps=40, low=None, high=None)
    assert not (found.success & certified).any()


def test_training_for_the_bound_raises_it() -> None:
    network = random_network([2, 8, 2], 1).float()
    x = torch.rand(64, 2, generator=torch.Generator().manual_seed(3)) * 2 - 1
    y = (x[:, 0] > 0).long()
    before = int(dual_certified(network, x, y, 0.1).sum())
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    for _ in range(150):
        optimizer.zero_grad()
        dual_loss(network, x, y, 0.1).backward()
        optimizer.step()
    assert int(dual_certified(network, x, y, 0.1).sum()) > before + 10


def test_what_it_is_not_for_is_told() -> None:
    x, y = torch.rand(1, 4), torch.zeros(1, dtype=torch.long)
    with pytest.raises(NotApplicable, match="linear, convolutional, ReLU and flatten layers, got Tanh"):
        worst_margins(nn.Sequential(nn.Linear(4, 2), nn.Tanh()), x, y, 0.1)
    with pytest.raises(UsageError, match=r"the norm linf or l2, got eps=0\.1 and 'l1'"):
        worst_margins(nn.Linear(4, 2), x, y, 0.1, "l1")
