"""A unit above the first layer that is on in a narrow cone only: random points miss it, corners of cells do not."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
from torch import nn

import leakmeter as lm
from leakmeter.extraction.certificate import certify_copy, fresh_reference
from leakmeter.extraction.exact.attack import ExactValues
from leakmeter.extraction.exact.copy import DeepCopy, layers_of
from leakmeter.extraction.exact.meeting import meeting_points
from leakmeter.extraction.exact.stack import Layer, Stack
from leakmeter.seeds import derive
from leakmeter.studies.ours.exact_depth import deep_network

SEED = derive(177, "soak victim")
RARE = 8


@pytest.fixture(name="net")
def _net() -> nn.Sequential:
    """4-12-12-4; a unit of its second layer is on at one far point of a hundred."""
    return deep_network((4, 12, 12, 4), seed=SEED)


def without_the_rare_unit(net: nn.Sequential) -> DeepCopy:
    output = nn.Linear(12, 4).double()
    with torch.no_grad():
        output.weight.copy_(net[4].weight)
        output.bias.copy_(net[4].bias)
        output.weight[:, RARE] = 0
    return DeepCopy([net[0], net[2]], [torch.zeros(12, dtype=torch.bool)] * 2, output)


def test_corners_of_cells_are_where_a_rare_unit_is_on(net, oracle) -> None:
    starts, generator = torch.randn(600, 4).double(), torch.Generator().manual_seed(0)
    points = meeting_points(
        layers_of(without_the_rare_unit(net)), oracle(net, "probs", 4).spec, starts, generator, 100.0
    )
    on = [float((net[:3](x)[:, RARE] > 0).double().mean()) for x in (starts, points)]
    assert on[0] < 0.002
    assert on[1] > 0.01


def test_corners_of_a_first_layer_are_where_its_hyperplanes_meet(network, oracle) -> None:
    net = network(5, 2)
    copy = DeepCopy([net[0]], [torch.zeros(5, dtype=torch.bool)], net[2])
    generator = torch.Generator().manual_seed(0)
    points = meeting_points(
        layers_of(copy), oracle(net, "logits", 2).spec, torch.randn(400, 2).double(), generator, 100.0
    )
    weight, bias = net[0].weight.detach(), net[0].bias.detach()
    for pair in combinations(range(5), 2):
        corner = torch.linalg.solve(weight[list(pair)], -bias[list(pair)])
        if float(corner.norm()) < 50:
            assert float((points - corner).norm(dim=1).min()) < 0.01 * (1 + float(corner.norm()))


def test_corners_of_a_box_stay_in_it(network, oracle) -> None:
    net = network(3, 6)
    copy = DeepCopy([net[0]], [torch.zeros(3, dtype=torch.bool)], net[2])
    x = meeting_points(
        layers_of(copy), oracle(net, "logits", 6, box=True).spec, torch.rand(50, 6).double(), torch.Generator(), 1.0
    )
    assert bool(((x >= 0) & (x <= 1)).all())
    z = torch.cat([x, 1 - x, net[0](x)], 1).abs()
    assert float(((z < 0.02).sum(1) >= 6).double().mean()) > 0.9


@pytest.mark.parametrize("view", ["logits", "probs"])
def test_a_copy_without_a_rare_unit_is_not_certified(net, oracle, view: str) -> None:
    door, copy = oracle(net, view, 4), without_the_rare_unit(net)
    truth = fresh_reference(door, 1)
    hard = ExactValues().hard_points(copy, door.spec, 200, 1)
    certificate = certify_copy(copy, door, truth, hard)
    assert not certificate.exact
    assert certificate.hard_error is not None
    assert certificate.hard_error > 1e-3
    assert "corners" in certificate.why()
    assert certify_copy(net, door, truth, hard).exact


def test_a_view_that_rounds_to_zero_certifies_nothing(net, oracle) -> None:
    with torch.no_grad():
        net[4].weight *= 1e5
        net[4].bias *= 1e5
    probs = lm.load_victim(
        nn.Sequential(net, nn.Softmax(1)), input_shape=(4,), low=None, high=None, classes=4, outputs="probs"
    )
    door = lm.Oracle(probs, "probs")
    hard = ExactValues().hard_points(without_the_rare_unit(net), door.spec, 100, 1)
    certificate = certify_copy(net, door, fresh_reference(door, 1), hard)
    assert not certificate.exact
    assert "too small to be read" in certificate.why()


@pytest.mark.slow
def test_the_copy_that_was_falsely_exact_says_what_it_is(net, oracle) -> None:
    found = lm.extract("exact-values", oracle(net, "probs", 4, budget=20_000), seed=177)
    x = 100 * torch.randn(20_000, 4).double()
    with torch.no_grad():
        truth, guess = (y - y.mean(1, keepdim=True) for y in (net(x), found.substitute(x)))
    assert not found.findings.exact or float((truth - guess).abs().max() / truth.abs().max()) < 1e-6
    assert found.findings.units >= 23


def test_a_unit_that_is_on_at_few_vertices_of_a_large_box_is_on_where_units_meet() -> None:
    """Run 2016 of the soak: one vertex of some thousand, and its copy called itself exact."""
    net = deep_network((20, 2, 2, 2), seed=derive(2016, "soak victim"))
    spec = lm.load_victim(net, input_shape=(20,), low=0.0, high=1.0, outputs="logits").spec
    generator = torch.Generator().manual_seed(0)
    starts = torch.rand(128, 20, generator=generator).double()
    first = Stack([Layer.of(net[0].weight.detach(), net[0].bias.detach())])
    with torch.no_grad():
        met = net[:3](meeting_points(first, spec, starts, generator, 1.0))[:, 0]
        anywhere = net[:3](torch.rand(4000, 20, generator=generator).double())[:, 0]
    assert not bool((anywhere > 0).any())
    assert bool((met > 0).any())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("name", "view"), [("exact-values", "logits"), ("exact", "logits+gradient")])
def test_a_linear_victim_has_no_surfaces_and_is_exact(name: str, view: str, dtype: torch.dtype, oracle) -> None:
    copy = lm.extract(name, oracle(nn.Linear(16, 2).to(dtype), view, 16), seed=0)
    assert copy.findings.exact
    assert copy.findings.units == 0
