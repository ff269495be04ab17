"""Several hidden layers: what is recovered, and what is said where it is not."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import leakmeter as lm
from leakmeter.extraction.exact import value_survey as module
from leakmeter.extraction.exact.asking import Asker
from leakmeter.extraction.exact.certificate import aligned
from leakmeter.extraction.exact.output import flips
from leakmeter.extraction.exact.peel import Peeler, Reading
from leakmeter.extraction.exact.rows import agree, components, evidence, merge
from leakmeter.extraction.exact.stack import Layer, Stack
from leakmeter.extraction.exact.survey import first_positions
from leakmeter.extraction.exact.value_survey import value_survey
from leakmeter.seeds import derive
from leakmeter.studies.ours.exact_depth import deep_network


def off(copy: nn.Module, net: nn.Module, x: torch.Tensor) -> float:
    with torch.no_grad():
        truth = net(x)
        return float((truth - copy(x)).abs().max() / truth.abs().max())


def stack_of(net: nn.Sequential, layers: int) -> Stack:
    linear = [module for module in net if isinstance(module, nn.Linear)][:layers]
    return Stack([Layer.of(module.weight.detach(), module.bias.detach()) for module in linear])


@pytest.mark.parametrize("widths", [(30, 12, 6, 4), (20, 8, 5, 1)], ids=["several outputs", "one output"])
def test_two_hidden_layers_come_back(widths: tuple[int, ...], oracle) -> None:
    net = deep_network(widths, seed=0)
    copy = lm.extract("exact", oracle(net, "logits+gradient", widths[0], budget=4000))
    assert copy.notes["layers"] == list(widths[1:-1])
    assert copy.findings.exact
    assert off(copy.substitute, net, 3 * torch.randn(5000, widths[0]).double()) < 1e-9
    assert (aligned(copy.substitute.hidden, net[0], tolerance=1e-10) >= 0).all()


@pytest.mark.parametrize("widths", [(4, 8, 5, 2), (5, 8, 6, 1)], ids=["several outputs", "one output"])
def test_layers_wider_than_the_input_come_back(widths: tuple[int, ...], oracle) -> None:
    net = deep_network(widths, seed=100)
    copy = lm.extract("exact", oracle(net, "logits+gradient", widths[0], budget=4000))
    assert copy.notes["layers"] == list(widths[1:-1])
    assert copy.findings.exact
    assert off(copy.substitute, net, 3 * torch.randn(5000, widths[0]).double()) < 1e-9


def test_a_layer_of_which_a_single_unit_is_on_hides_no_bend(oracle) -> None:
    net = deep_network((8, 3, 2, 4), seed=0)
    copy = lm.extract("exact", oracle(net, "logits+gradient", 8, budget=4000))
    assert copy.notes["layers"] == [3, 2]
    assert copy.findings.exact


def test_narrow_layers_come_back_in_single_precision(oracle) -> None:
    """Three weights a row: two bends share no more than that."""
    net = deep_network((8, 3, 12, 2), seed=derive(2006, "soak victim")).float()
    copy = lm.extract("exact", oracle(net, "logits+gradient", 8, budget=4000), seed=2006)
    assert copy.findings.exact
    assert off(copy.substitute, net.double(), torch.randn(5000, 8).double()) < 1e-3


def test_values_alone_are_enough(oracle) -> None:
    net = deep_network((20, 8, 5, 1), seed=0)
    copy = lm.extract("exact-values", oracle(net, "logits", 20, budget=60_000))
    assert copy.notes["layers"] == [8, 5]
    assert off(copy.substitute, net, torch.randn(5000, 20).double()) < 1e-7


@pytest.mark.parametrize("budget", [5, 60, 150, 260])
def test_what_was_found_survives_a_spent_budget(budget: int, oracle) -> None:
    net = deep_network((30, 12, 6, 4), seed=0)
    door = oracle(net, "logits+gradient", 30, budget=budget)
    copy = lm.extract("exact", door)
    assert door.ledger.spent() <= budget
    assert not copy.findings.complete
    assert copy.substitute(torch.randn(3, 30).double()).shape == (3, 4)


@pytest.mark.parametrize("seed", range(3))
def test_single_precision_from_values_never_raises_and_never_claims_too_much(seed: int, oracle) -> None:
    net = deep_network((16, 32, 1), seed=seed, dtype=torch.float32)
    findings = lm.extract("exact-values", oracle(net, "logits", 16, budget=3000), seed=seed).findings
    assert not findings.exact or findings.certificate.relative_error < 1e-3


def test_a_bend_tells_the_weights_of_units_that_are_on() -> None:
    net = deep_network((12, 6, 4, 2), seed=1)
    stack, top = stack_of(net, 1), stack_of(net, 2)
    x = torch.randn(1, 12).double()
    z, gradient = top.slopes(x, torch.eye(12).double())
    x = x - (z[0, 0] / gradient[0, 0].square().sum()) * gradient[0, 0]  # onto the surface of unit 0, nearly
    z, gradient = top.slopes(x, torch.eye(12).double())
    basis = torch.linalg.svd(net[0].weight.detach(), full_matrices=False)[2].T
    normal = gradient[:, 0] / gradient[:, 0].norm(dim=1, keepdim=True)
    found = evidence(stack, x, normal, torch.full((1,), 1e-14).double(), basis, 1e-7)
    on = stack.inputs(x)[0][0] > 0
    truth = net[2].weight.detach()[0] * on
    assert torch.equal(found.known[0, :-1], on)
    cosine = (found.row[0, :-1] @ truth) / (found.row[0, :-1].norm() * truth.norm())
    assert abs(float(cosine)) == pytest.approx(1.0, abs=1e-12)


def test_bends_of_one_unit_agree_and_merge() -> None:
    row, other = torch.randn(8).double(), torch.randn(8).double()
    known = torch.ones(3, 8, dtype=torch.bool)
    known[0, 4:6], known[1, :2] = False, False
    from leakmeter.extraction.exact.rows import Evidence

    found = Evidence(torch.stack([row, -3 * row, other]) * known, known, torch.ones(3, dtype=torch.bool), torch.ones(3))
    groups = components(agree(found, 1e-6, 3))
    assert [group.tolist() for group in groups] == [[0, 1]]
    merged, complete = merge(found, groups[0])
    assert bool(complete.all())
    assert float((merged @ row).abs() / (merged.norm() * row.norm())) == pytest.approx(1.0, abs=1e-12)


def test_units_that_face_the_other_way_are_told_by_what_passes_by_them() -> None:
    w, below = torch.randn(3, 6).double(), torch.randn(6, 9).double()
    turned = torch.tensor([True, False, True, True, False, False])
    found, rest = flips(w, -(w * turned) @ below, below)
    assert torch.equal(found, turned)
    assert float(rest.norm()) < 1e-9


def test_one_unit_found_twice_is_one() -> None:
    row, other = torch.randn(2, 6).double()
    layer = Layer.of(torch.stack([row, other, -3 * row, row]), torch.tensor([1.0, 2.0, -3.0, 1.5]).double())
    assert layer.doubles().tolist() == [False, False, True, False]


def test_rows_that_overflowed_end_the_search_and_not_the_audit(oracle, monkeypatch) -> None:
    net = deep_network((8, 5, 4, 2), seed=0)
    real = Peeler.read

    def overflowing(self: Peeler, again: int = 2) -> Reading:
        reading = real(self, again)
        reading.stack.layers[-1] = replace(reading.stack.layers[-1], weight=reading.stack.layers[-1].weight * torch.inf)
        return reading

    monkeypatch.setattr(Peeler, "read", overflowing)
    found = lm.extract("exact", oracle(net, "logits+gradient", 8, budget=2000), seed=0)
    assert not found.findings.complete
    assert found.findings.missing
    assert bool(torch.isfinite(found.substitute(torch.randn(10, 8).double())).all())


def test_a_line_whose_ends_are_both_constant_is_asked_between_them() -> None:
    inner = first_positions((-90.0, 90.0), False, lambda wanted: wanted)
    assert len(inner) == 9
    assert bool((inner.diff() > 0).all())
    assert first_positions((-1.0, 1.0), True, lambda wanted: wanted).tolist() == [-1.0, 1.0]
    assert first_positions((-90.0, 90.0), False, lambda _: 8).tolist() == [-90.0, 90.0]


def test_an_island_between_two_places_where_the_victim_is_constant_is_found_from_values(oracle) -> None:
    """relu(1 - 20 |x - 0.7|): none of the places asked first is on it, but the middle of the line's only cell is."""
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1), nn.ReLU(), nn.Linear(1, 1)).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.zero_()
        net[0].weight[:, 0] = torch.tensor([20.0, -20.0, 1.0])
        net[0].bias[:] = torch.tensor([-14.0, 14.0, 0.0])
        net[2].weight[0, :2], net[2].bias[0], net[4].weight[0, 0] = -1.0, 1.0, 1.0
    asker = Asker(oracle(net, "logits", 2))
    start, along = torch.tensor([0.0, 0.3]).double(), torch.tensor([1.0, 0.1]).double()
    survey = value_survey(asker, start, along, (-98.6, 100.0), False)
    assert torch.allclose(survey.t, torch.tensor([0.65, 0.7, 0.75]).double(), atol=1e-6)


def test_what_the_last_round_on_a_line_found_has_no_cells_and_is_left_to_other_lines(oracle, monkeypatch) -> None:
    """A victim that contradicts itself to the end once left fewer bends than cells, and a traceback."""
    net, calls = deep_network((4, 6, 2), seed=1), []

    def apart(t: torch.Tensor, _step: float) -> torch.Tensor:
        calls.append(len(t))
        return t if len(calls) == 1 else t[:0]

    monkeypatch.setattr(module, "_apart", apart)
    monkeypatch.setattr(module, "_contradicted", lambda _t, asked, _cells, _along: [asked])
    monkeypatch.setattr(module, "_AGAIN", 1)
    draws = torch.Generator().manual_seed(0)
    start, along = torch.randn(2, 4, generator=draws).double()
    survey = value_survey(Asker(oracle(net, "logits", 4)), start, along, (-50.0, 50.0), False)
    assert len(calls) == 2
    assert len(survey.t) == calls[0] == len(survey.cells.t) - 1 > 0
