"""Units of the last hidden layer, told by what the outputs make of them, and what is solved for with that."""

import torch
from torch import nn

from leakmeter.extraction.exact.asking import Asker
from leakmeter.extraction.exact.bank import Bank, claims
from leakmeter.extraction.exact.copy import DeepCopy, linear
from leakmeter.extraction.exact.fresh import ask_at
from leakmeter.extraction.exact.jacobians import solve_weights
from leakmeter.extraction.exact.kinks import Trace
from leakmeter.extraction.exact.output import Known
from leakmeter.extraction.exact.outward import Told, in_part, last_layer
from leakmeter.extraction.exact.rows import evidence
from leakmeter.extraction.exact.stack import Layer, Stack
from leakmeter.extraction.exact.survey import Survey, gradient_survey
from leakmeter.studies.ours.exact_depth import deep_network

TOLERANCE = 5e-7


def lines(net: nn.Module, oracle, d: int, n: int) -> list[Survey]:
    asker, generator = Asker(oracle(net, "logits+gradient", d)), torch.Generator().manual_seed(0)
    origins, along = torch.randn(2, n, d, generator=generator, dtype=torch.float64)
    return [gradient_survey(asker, o, a, (-1e4, 1e4), False) for o, a in zip(origins, along, strict=True)]


def stack_of(net: nn.Sequential, depth: int) -> Stack:
    dense = [module for module in net if isinstance(module, nn.Linear)][:depth]
    return Stack([Layer.of(module.weight.detach(), module.bias.detach()) for module in dense])


def told_by(net: nn.Sequential, surveys: list[Survey]) -> Told | None:
    bank, first = Bank(surveys), stack_of(net, 1)
    basis = torch.linalg.svd(first.layers[0].weight, full_matrices=False)[2].T
    own = claims(first, bank, basis, TOLERANCE)[0].any(1)
    rows = (bank.clear & ~own).nonzero()[:, 0]
    found = evidence(first, bank.x[rows], bank.normals[rows], bank.error[rows], basis, TOLERANCE)
    return last_layer(bank, rows, found, basis, TOLERANCE)


def test_bends_of_one_unit_of_the_last_layer_are_told_by_what_outputs_make_of_it(oracle) -> None:
    net = deep_network((12, 6, 5, 4), seed=1)
    told = told_by(net, lines(net, oracle, 12, 6))
    assert told is not None
    outputs, rows = net[4].weight.detach(), net[2].weight.detach()
    cosine = torch.cosine_similarity(told.outward.T[:, None], outputs.T[None], dim=2)
    unit = cosine.argmax(1)
    assert len(set(unit.tolist())) == len(unit) >= 4
    assert float(cosine.amax(1).min()) > 1 - 1e-9
    truth = rows[unit] * told.layer.known
    scale = (told.layer.weight * truth).sum(1) / truth.square().sum(1)
    assert torch.allclose(told.layer.weight, scale[:, None] * truth, atol=1e-6)
    # what outputs make of a unit goes with its row, whichever way that faces
    assert torch.allclose(told.outward, outputs[:, unit] / scale.abs(), rtol=1e-5)


def test_a_layer_below_the_last_is_not_read_by_outputs(oracle) -> None:
    net = deep_network((12, 6, 6, 6, 4), seed=1)
    assert told_by(net, lines(net, oracle, 12, 6)) is None


def test_a_copy_with_weights_missing_is_told_what_outputs_make_of_its_units(oracle) -> None:
    net = deep_network((12, 6, 5, 4), seed=1)
    first, second = stack_of(net, 2).layers
    unknown = Layer(second.weight, second.bias, second.linear, torch.zeros_like(second.known))
    spoiled = Known(Stack([first, unknown]), torch.zeros(4, 5).double(), torch.zeros(4).double(), torch.zeros(0, 12))
    known = in_part(spoiled, lines(net, oracle, 12, 6), TOLERANCE)
    assert known.sure
    assert known.stack.layers[1].known.double().mean() > 0.9
    x = torch.randn(500, 12).double()
    assert float((known(x) - net(x).detach()).norm(dim=1).median()) < 1e-6


def test_a_line_bends_once_at_a_hyperplane_of_the_first_layer() -> None:
    """Where one unit of the first layer is on, one above bends in parallel to it, and here close by."""
    t, nothing = torch.tensor([0.5, 0.5004]).double(), torch.zeros(2).double()
    cells = Trace(nothing, torch.zeros(2, 1).double(), torch.ones(2, 1, 2).double(), nothing, nothing)
    normals = torch.tensor([[1.0, 0.0], [1.0, 0.0]]).double()
    along = torch.tensor([1.0, 0.0]).double()
    bank = Bank([Survey(0 * along, along, (0.0, 1.0), t, normals, nothing + 1e-9, cells, False)])
    layer = Layer.of(torch.tensor([[1.0, 0.0]]).double(), torch.tensor([-0.5]).double())
    matched = claims(Stack([layer]), bank, torch.eye(2).double(), 1e-3)[0]
    assert matched[:, 0].tolist() == [True, False]


def test_missing_weights_are_solved_for_from_jacobians(oracle) -> None:
    net = deep_network((12, 6, 5, 4), seed=1).float()
    dense = [module for module in net if isinstance(module, nn.Linear)]
    told = ask_at(Asker(oracle(net, "logits+gradient", 12)), torch.randn(400, 12).double())
    stays = torch.rand(5, 6, generator=torch.Generator().manual_seed(0)) < 0.7
    guess = torch.where(stays, dense[1].weight, 0.8 * dense[1].weight).detach()
    hidden = [linear(dense[0].weight, dense[0].bias), linear(guess, dense[1].bias)]
    passing = [torch.zeros(len(layer.bias), dtype=torch.bool) for layer in hidden]
    copy = DeepCopy(hidden, passing, linear(dense[2].weight, dense[2].bias))
    single = type(told)(told.x.float(), told.scores.float(), told.gradients)
    solve_weights(copy, stays, single)
    assert torch.allclose(hidden[1].weight, dense[1].weight, atol=1e-3)
