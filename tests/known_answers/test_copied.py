"""Victims that can be copied outright, at a known price."""

from __future__ import annotations

import re

import torch
from tests.known_answers.victims import QUICK, Audit, balanced_net, inputs
from torch import Tensor, nn

from leakmeter.evaluation.score import predict

EXACT = {"views": ["logits+gradient"], "attacks": [{"name": "exact"}], "budget": 2000}


class Constant(nn.Module):
    """Names class 1, whatever it is asked."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.tensor([0.0, 4.0, 1.0]).expand(len(x), 3)


def test_a_constant_costs_one_query_and_a_failed_transfer_keeps_the_copy(audit: Audit) -> None:
    found = audit(Constant(), transfer={})
    assert [cell.status for cell in found.result.cells] == ["done"] * 3
    assert "agrees with the model on 100.0% of inputs" in found.verdict.headline
    assert "always naming one class would agree on 100.0%" in found.verdict.headline
    assert "a copy of that costs no more than one query" in found.text
    assert "a 90% copy costs at most 1 query" in found.text
    assert found.verdict.outcome == "exceeded"
    failed = found.check("transfer measured")
    assert failed.ok == all(cell.transfer is not None for cell in found.result.cells)


def test_a_linear_model_costs_one_gradient(audit: Audit) -> None:
    found = audit(balanced_net(3), **EXACT)
    assert "The model was copied exactly" in found.verdict.headline
    assert "a 90% copy costs at most 1 query (exact: 3 of 3 tries reach 90.0%" in found.text
    assert found.verdict.outcome == "exceeded"


def test_a_network_of_known_size_is_read_off(audit: Audit) -> None:
    found = audit(balanced_net(12, 3), **EXACT)
    cells = found.result.cells
    assert [cell.findings.units for cell in cells if cell.findings] == [12] * 3
    assert "The model was copied exactly" in found.verdict.headline
    (arm,) = found.verdict.arms
    assert arm.whole
    # every unit needs two pieces to be told apart from its neighbours, and every far point costs one
    assert arm.costs[-1].made is not None
    assert arm.costs[-1].made <= 12 * 30
    assert found.verdict.outcome == "exceeded"
    assert found.check("certificates true").ok


def test_units_that_are_twice_there_are_one_unit_to_whoever_asks(audit: Audit) -> None:
    net = balanced_net(12, 3)
    first, last = net[0], net[2]
    assert isinstance(first, nn.Linear)
    assert isinstance(last, nn.Linear)
    with torch.no_grad():
        first.weight[6:] = 2 * first.weight[:6]
        first.bias[6:] = 2 * first.bias[:6]
        last.bias.sub_(net(inputs(2000)).mean(0))
    found = audit(net, **EXACT)
    assert [cell.findings.units for cell in found.result.cells if cell.findings] == [6] * 3
    assert "The model was copied exactly" in found.verdict.headline
    assert found.verdict.outcome == "exceeded"


def test_a_class_that_is_never_named_is_not_held_against_the_copy(audit: Audit) -> None:
    net = balanced_net(3)
    last = net[0]
    assert isinstance(last, nn.Linear)
    with torch.no_grad():
        last.bias[2] = -1000
    assert not (predict(net, inputs()).argmax(1) == 2).any()
    found = audit(net, **EXACT)
    (arm,) = found.verdict.arms
    assert (arm.unnamed, arm.balanced, arm.worst) == (0, 1.0, 1.0)
    assert found.check("copies beat a constant").ok


def test_explanations_nobody_read_are_not_called_cheap(audit: Audit) -> None:
    net = balanced_net(12, 3)
    views = ["probs", "probs+gradient"]
    blind = audit(net, views=views, attacks=[QUICK], seeds=[0, 1])
    assert "cheaper" not in blind.text
    assert "No attack that reads gradient was run" in blind.text
    seeing = audit(net, views=views, attacks=[QUICK, {"name": "exact"}], seeds=[0, 1], budget=600)
    assert "No attack that reads" not in seeing.text
    assert re.search("Showing gradient (makes .* copy|made no copy) .*cheaper than showing probs", seeing.text)
    assert seeing.verdict.outcome == "exceeded"
