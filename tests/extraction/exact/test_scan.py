"""Values alone in single precision."""

import pytest
import torch

import leakmeter as lm
from leakmeter.extraction.exact.asking import Asker
from leakmeter.extraction.exact.network import OneHidden
from leakmeter.extraction.exact.polish import merge, polish
from leakmeter.extraction.exact.scan import Samples, scan


def test_bends_are_found_to_nearly_the_precision_of_values() -> None:
    torch.manual_seed(3)
    bends, jumps = (torch.rand(30).double() * 10 - 5).sort()[0], torch.randn(30, 2).double()
    asked = []

    def ask(t: torch.Tensor) -> Samples:
        f = torch.relu(t[:, None] - bends) @ jumps
        asked.append(len(t))
        return Samples(t, f.float().double(), 4e-7 * (1 + f.norm(dim=1)))

    found = scan(ask, (-6.0, 6.0), 1e-4, lambda n: n)
    assert found is not None
    assert len(found.t) == 30
    assert float((found.t - bends).abs().max()) < 1e-3
    assert torch.allclose(torch.diff(found.slopes, dim=0), jumps, atol=0.02)
    assert sum(asked) < 500


def test_a_cell_measured_wrongly_does_not_bend_the_others(network, oracle) -> None:
    net = network(6, 5, 2, dtype=torch.float32)
    asker, x = Asker(oracle(net, "logits", 5)), torch.randn(600, 5).double()
    truth = [parameter.detach().double() for parameter in net.parameters()]
    rough = OneHidden(x[0], truth[3], torch.zeros(2, 5).double())
    rough.shift = truth[3]
    rough.append(truth[0] + 1e-3 * torch.randn(6, 5).double(), -truth[1], truth[2])
    asker.steepest = 3.0
    asker.ask(x)
    points, values = asker.asked[0]
    values[::60] += 10.0
    assert polish(asker, rough) < 0.03
    assert float((rough(points) - net(points.float()).detach().double()).abs().max()) < 1e-4


def test_units_found_twice_become_one_and_change_nothing() -> None:
    normal = torch.tensor([[0.6, 0.8], [-0.6, -0.8], [0.0, 1.0]]).double()
    network = OneHidden(torch.zeros(2).double(), torch.zeros(1).double(), torch.zeros(1, 2).double())
    network.append(normal, torch.tensor([0.5, -0.5, 0.1]).double(), torch.tensor([[2.0, 0.3, 1.0]]).double())
    x = torch.randn(50, 2).double()
    before = network(x)
    assert merge(network)
    assert network.units == 2
    assert torch.allclose(network(x), before)
    assert not merge(network)


@pytest.mark.parametrize(("view", "outputs"), [("logits", 1), ("logits", 3), ("probs", 3)])
def test_one_hidden_layer_in_single_precision_is_recovered(view: str, outputs: int, network, oracle) -> None:
    net = network(12, 8, outputs, seed=1, dtype=torch.float32)
    copy = lm.extract("exact-values", oracle(net, view, 8, budget=10_000))
    assert copy.findings.complete
    assert copy.findings.units == 12
    assert copy.findings.certificate.exact


def test_two_hidden_layers_are_not_taken_for_one(oracle) -> None:
    torch.manual_seed(0)
    modules = [torch.nn.Linear(8, 12), torch.nn.ReLU(), torch.nn.Linear(12, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)]
    copy = lm.extract("exact-values", oracle(torch.nn.Sequential(*modules), "logits", 8, budget=3_000))
    assert not copy.findings.certificate.exact
    assert not copy.findings.complete


@pytest.mark.parametrize("seed", [5, 6])
def test_in_a_box_units_that_switch_in_its_corners_are_not_hidden_among_many_values(seed: int, network, oracle) -> None:
    net = network(12, 8, 3, seed=seed, dtype=torch.float32)
    copy = lm.extract("exact-values", oracle(net, "logits", 8, box=True, budget=6_000))
    assert copy.findings.complete
    assert copy.findings.exact


@pytest.mark.parametrize("seed", [1, 2])
def test_units_are_measured_again_where_all_others_are_far_from_switching(seed: int, network, oracle) -> None:
    net = network(24, 80, 6, seed=seed, dtype=torch.float32)
    copy = lm.extract("exact-values", oracle(net, "logits", 80, budget=20_000))
    assert copy.findings.units == 24
    assert copy.findings.certificate.relative_error < 1e-4
