"""Which way units face, and what passes by a layer, read from lines through victims that are known."""

import pytest
import torch
from torch import nn

from leakmeter.extraction.exact.asking import Asker
from leakmeter.extraction.exact.bank import Bank, claims
from leakmeter.extraction.exact.passing import passing_rows, switched
from leakmeter.extraction.exact.sides import odds
from leakmeter.extraction.exact.stack import Layer, Stack
from leakmeter.extraction.exact.survey import gradient_survey
from leakmeter.studies.ours.exact_depth import deep_network

TOLERANCE = 5e-7


def lines(net: nn.Module, oracle, d: int, n: int) -> Bank:
    asker, generator = Asker(oracle(net, "logits+gradient", d)), torch.Generator().manual_seed(0)
    origins, along = torch.randn(2, n, d, generator=generator, dtype=torch.float64)
    ends = (-1e4, 1e4)
    return Bank([gradient_survey(asker, o, a, ends, False) for o, a in zip(origins, along, strict=True)])


def known(net: nn.Sequential, depth: int) -> Stack:
    linear = [module for module in net if isinstance(module, nn.Linear)][:depth]
    return Stack([Layer.of(module.weight.detach(), module.bias.detach()) for module in linear])


def basis_of(stack: Stack) -> torch.Tensor:
    return torch.linalg.svd(stack.layers[0].weight, full_matrices=False)[2].T


@pytest.mark.parametrize(
    ("widths", "depth"),
    [((12, 8, 6, 2), 1), ((6, 14, 6, 1), 1), ((20, 10, 10, 10, 3), 2)],
    ids=["narrow", "wider than the input, one output", "as wide as the layer below"],
)
def test_jacobians_on_both_sides_of_bends_tell_which_way_units_face(widths, depth, oracle) -> None:
    net = deep_network(widths, seed=5)
    stack, bank = known(net, depth), lines(net, oracle, widths[0], 12)
    turned = torch.arange(widths[depth]) % 3 == 0
    stack.layers[-1] = stack.layers[-1].turned(turned)
    basis = basis_of(stack)
    found = odds(stack, bank, claims(stack, bank, basis, TOLERANCE)[0], basis, TOLERANCE)
    sure = found.abs() > 5
    assert float(sure.double().mean()) >= 0.8
    assert torch.equal((found < 0)[sure], turned[sure])


def test_a_unit_alone_in_its_layer_tells_which_way_it_faces(oracle) -> None:
    net = deep_network((6, 4, 1, 2), seed=1)
    stack, bank = known(net, 2), lines(net, oracle, 6, 4)
    stack.layers[-1] = stack.layers[-1].turned(torch.ones(1, dtype=torch.bool))
    basis = basis_of(stack)
    assert float(odds(stack, bank, claims(stack, bank, basis, TOLERANCE)[0], basis, TOLERANCE)) < -5


def test_without_bends_nothing_is_told(oracle) -> None:
    net = deep_network((6, 4, 3, 2), seed=1)
    stack, bank = known(net, 1), lines(net, oracle, 6, 2)
    nothing = torch.zeros(len(bank.x), 4, dtype=torch.bool)
    assert float(odds(stack, bank, nothing, basis_of(stack), TOLERANCE).abs().max()) == 0


def always_on(widths: tuple[int, ...], bias: float = -0.1) -> nn.Sequential:
    """A network in which the first unit of the second layer is on but for few places."""
    net = deep_network(widths, seed=3)
    with torch.no_grad():
        net[2].weight[0] = net[2].weight[0].abs()
        net[2].bias[0] = bias
    return net


def test_a_unit_that_is_on_nearly_everywhere_is_found_by_what_it_adds_to_jacobians(oracle) -> None:
    net = always_on((20, 10, 6, 4, 3))
    whole, bank = known(net, 2), lines(net, oracle, 20, 10)
    row = whole.layers[1].weight[0] / whole.layers[1].weight[0].norm()
    lacking = Stack([whole.layers[0], whole.layers[1][1:]])
    top, rows, everywhere = passing_rows(lacking, bank, basis_of(whole), TOLERANCE)
    assert everywhere
    assert len(rows) == 1
    assert abs(float(rows[0] @ row)) == pytest.approx(1.0, abs=1e-9)
    assert torch.equal(top.weight, whole.layers[1].weight[1:])


def test_nothing_passes_by_a_whole_layer(oracle) -> None:
    net = deep_network((20, 10, 6, 4, 3), seed=3)
    whole, bank = known(net, 2), lines(net, oracle, 20, 10)
    assert not len(passing_rows(whole, bank, basis_of(whole), TOLERANCE)[1])


def test_a_unit_that_faces_the_wrong_way_is_turned(oracle) -> None:
    net = deep_network((20, 10, 6, 4, 3), seed=3)
    whole, bank = known(net, 2), lines(net, oracle, 20, 10)
    wrong = Stack([whole.layers[0], whole.layers[1].turned(torch.arange(6) == 2)])
    top, rows, _ = passing_rows(wrong, bank, basis_of(whole), TOLERANCE)
    assert not len(rows)
    torch.testing.assert_close(top.weight, whole.layers[1].weight)


def test_one_bend_tells_the_bias_of_what_passes_by(oracle) -> None:
    net = always_on((20, 10, 6, 4, 3), bias=-2.0)
    whole = known(net, 2)
    unit, basis = Stack([whole.layers[0], whole.layers[1][:1]]), basis_of(whole)
    bank = lines(net, oracle, 20, 60)
    bends = claims(unit, bank, basis, TOLERANCE)[0][:, 0].nonzero()[:, 0].tolist()
    assert bends
    mixed = Layer.passing(
        torch.stack([whole.layers[1].weight[0] + whole.layers[1].weight[1], whole.layers[1].weight[1]])
    )
    lacking = Stack([whole.layers[0], whole.layers[1][2:].join(mixed)])
    layer = next(found for i in bends if (found := switched(lacking, bank, i, basis, TOLERANCE)) is not None)
    found = torch.cat([layer.weight[4], layer.bias[4:5]])
    truth = torch.cat([whole.layers[1].weight[0], whole.layers[1].bias[:1]])
    assert float(torch.cosine_similarity(found, truth, dim=0)) == pytest.approx(1.0, abs=1e-9)
    assert int(layer.linear.sum()) == 1
    other = next(i for i in range(len(bank.x)) if i not in bends)
    assert switched(lacking, bank, other, basis, TOLERANCE) is None
