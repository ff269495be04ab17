"""Reconstruction from values alone."""

import pytest
import torch
from torch import nn

import leakmeter as lm
from leakmeter.extraction.exact.asking import Asker
from leakmeter.extraction.exact.differences import differences
from leakmeter.extraction.exact.near import settle
from leakmeter.extraction.exact.network import OneHidden
from leakmeter.extraction.exact.polish import holds, polish
from leakmeter.extraction.exact.probes import reach
from leakmeter.extraction.exact.values import ValueLine


def flat(x: torch.Tensor, value: torch.Tensor, d: int) -> OneHidden:
    return OneHidden(x, value, torch.zeros(len(value), d, dtype=torch.float64))


@pytest.mark.parametrize("width", [1e-4, 0.05, 10.0])
def test_differences_are_gradients_whatever_width_is_guessed(width: float, network, oracle) -> None:
    net = network(20, 8, 3)
    asker, x = Asker(oracle(net, "logits", 8)), torch.randn(8, dtype=torch.float64)
    slopes = differences(asker, flat(x, 0 * net(x[None])[0].detach(), 8), x, net(x[None])[0].detach(), width)
    assert slopes is not None
    truth = torch.func.jacrev(lambda row: net(row[None])[0])(x).detach()
    assert torch.allclose(slopes.gradient, truth, atol=10 * slopes.error + 1e-12)


@pytest.mark.parametrize("view", ["logits", "probs"])
@pytest.mark.parametrize("box", [False, True])
def test_values_are_enough(view: str, box: bool, network, oracle) -> None:
    net = network(10, 12, 3)
    copy = lm.extract("exact-values", oracle(net, view, 12, box=box), patience=200)
    x = torch.rand(500, 12, dtype=torch.float64)
    truth, found = net(x).detach(), copy.substitute(x)
    assert copy.findings.certificate.exact
    assert torch.allclose(truth - truth.mean(1, keepdim=True), found - found.mean(1, keepdim=True), atol=1e-8)


def test_the_price_is_little_more_than_a_gradient_a_cell(network, oracle) -> None:
    net = network(30, 60)
    door = oracle(net, "logits", 60)
    copy = lm.extract("exact-values", door)
    assert copy.findings.certificate.bits > 25
    assert 61 * 31 <= door.ledger.spent() <= 1.7 * 61 * 31


def test_linear_regression_takes_d_plus_one_values(oracle) -> None:
    net = nn.Linear(30, 4).double()
    door = oracle(net, "logits", 30, budget=31)
    copy = lm.extract("exact-values", door).substitute
    x = torch.randn(100, 30, dtype=torch.float64)
    assert door.ledger.spent() == 31
    assert torch.allclose(copy(x), net(x), atol=1e-10)


@pytest.mark.parametrize("budget", [1, 5, 14, 40, 100])
def test_a_budget_is_kept_and_its_end_is_told(budget: int, network, oracle) -> None:
    door = oracle(network(16, 12, 2), "logits", 12, budget=budget)
    findings = lm.extract("exact-values", door).findings
    assert door.ledger.spent() <= budget
    assert "budget" in findings.missing


@pytest.mark.slow
def test_at_full_size_values_beat_the_published_price_and_precision(network, oracle) -> None:
    door = oracle(network(128, 784), "logits", 784)
    findings = lm.extract("exact-values", door).findings
    assert door.ledger.spent() <= 2**17.5
    assert findings.certificate.bits >= 25


def test_a_fit_to_all_values_brings_a_rough_copy_to_the_precision_of_single_values(network, oracle) -> None:
    net = network(6, 5, 2, dtype=torch.float32)
    asker, x = Asker(oracle(net, "logits", 5)), torch.randn(400, 5).double()
    truth = [parameter.detach().double() for parameter in net.parameters()]
    rough = OneHidden(x[0], torch.zeros(2).double(), torch.zeros(2, 5).double())
    noise = 1e-3 * torch.randn(6, 5).double()
    rough.normals, rough.offsets, rough.weights = truth[0] + noise, -truth[1], truth[2]
    rough.shift = truth[3]
    asker.steepest = 3.0
    asker.ask(x)
    before = float((rough(x) - net(x.float()).detach().double()).abs().max())
    assert polish(asker, rough) == 0
    after = float((rough(x) - net(x.float()).detach().double()).abs().max())
    assert before > 1e-4
    assert after < 3e-6
    assert holds(asker, rough, torch.Generator().manual_seed(0))


def test_a_budget_that_ends_before_any_cell_is_known_is_no_crash() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 10))
    victim = lm.load_victim(net, input_shape=(1, 8, 8), low=0.0, high=1.0)
    copy = lm.extract("exact-values", lm.Oracle(victim, view="probs", budget=800), seed=0)
    assert copy.findings.certificate is None or not copy.findings.certificate.exact
    assert copy.substitute(torch.rand(3, 1, 8, 8)).shape == (3, 10)


def test_offsets_found_far_away_are_mended_by_values_near_the_start(network, oracle) -> None:
    net = network(12, 20, 2)
    truth = [parameter.detach() for parameter in net.parameters()]
    x = torch.randn(500, 20, dtype=torch.float64)
    rough = flat(x[0], truth[3], 20)
    rough.shift, rough.normals, rough.weights = truth[3].clone(), truth[0], truth[2]
    rough.offsets = -truth[1] + 1e-6 * torch.randn(12, dtype=torch.float64)
    door = oracle(net, "logits", 20)
    settle(Asker(door), rough, torch.Generator().manual_seed(0))
    assert float((rough(x) - net(x).detach()).abs().max()) < 1e-12
    assert door.ledger.spent() <= 32 + 2 * 12


def test_the_piece_at_the_start_is_measured_again_where_it_is_narrow(network, oracle) -> None:
    """Two units switch on both sides of the start, so near that steps in its cell are mostly rounding."""
    net, start = network(10, 20), torch.zeros(20, dtype=torch.float64)
    with torch.no_grad():
        net[0].bias[:2] = torch.tensor([1e-5, -1e-5])
    asker = Asker(oracle(net, "logits", 20))
    answer = asker.ask(start[None])
    copy = ValueLine.first_piece(asker, start, answer)
    far = reach(asker.spec, exact=False) * torch.randn(1, 20, dtype=torch.float64)
    far = torch.cat([far, -far])
    ValueLine(asker, copy, start, far[0], asker.ask(far)).explore()
    x = torch.randn(500, 20, dtype=torch.float64)
    on = ((x @ copy.normals.T - copy.offsets) > 0).double()
    slopes = (on * copy.weights[0]) @ copy.normals + copy.skip[0]
    truth = ((net[0](x) > 0).double() * net[2].weight[0]) @ net[0].weight
    assert copy.units == 10
    assert float((slopes - truth.detach()).norm(dim=1).median()) < 1e-11
