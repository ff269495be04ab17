"""The door itself: what it refuses, what it leaves untouched, what it says of a victim that misbehaves."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from leakmeter.errors import UsageError, VictimError
from leakmeter.oracle.ledger import Ledger
from leakmeter.oracle.oracle import Oracle
from leakmeter.victims.load import load_victim


class Misbehaving(nn.Module):
    """Well-behaved while it is loaded, then as told."""

    input_shape, low, high = (2,), 0.0, 1.0

    def __init__(self) -> None:
        super().__init__()
        self.manner = "well"

    def forward(self, x: Tensor) -> Tensor:
        logits = torch.stack([x.sum(1), x.prod(1), x[:, 0]], dim=1)
        if self.manner == "raises":
            raise RuntimeError("out of memory\nand a long trace")
        if self.manner == "nan":
            logits[0, 1] = torch.nan
        if self.manner == "in place":
            x.zero_()
        return {"narrow": logits[:, :2], "short": logits[:-1]}.get(self.manner, logits)


@pytest.mark.parametrize(
    ("manner", "sentence"),
    [
        ("raises", "the victim Misbehaving raised RuntimeError: out of memory$"),
        ("nan", "the victim Misbehaving answered 1 of 4 queries with NaN or infinity"),
        ("narrow", r"expected outputs of shape \(4, 3\) from the victim Misbehaving, got \(4, 2\)"),
        ("short", r"expected outputs of shape \(4, 3\) from the victim Misbehaving, got \(3, 3\)"),
    ],
)
def test_a_misbehaving_victim_makes_the_audit_inconclusive(manner: str, sentence: str) -> None:
    module = Misbehaving()
    oracle = Oracle(load_victim(module))
    module.manner = manner
    with pytest.raises(VictimError, match=sentence) as caught:
        oracle.query(torch.rand(4, 2))
    assert caught.value.exit_code == 4
    assert oracle.ledger.spent() == 4, "they may have been answered"


def test_a_victim_that_works_in_place_changes_nobodys_queries(tmp_path) -> None:
    module = Misbehaving()
    victim = load_victim(module)
    module.manner = "in place"
    x = torch.rand(4, 2)
    before = x.clone()
    Oracle(victim).query(x)
    assert torch.equal(x, before)


@pytest.mark.parametrize("labels", [[0, 3], [-1, 0], [0.5, 1.0]])
def test_labels_out_of_range_are_the_victims_fault(labels: list[float]) -> None:
    answers = [np.zeros(4, dtype=int)]
    victim = load_victim(lambda x: answers[0], input_shape=(2,), low=0.0, high=1.0, classes=3, outputs="labels")
    answers[0] = np.array(labels)
    with pytest.raises(VictimError, match="expected labels from 0 to 2"):
        Oracle(victim, "labels").query(torch.rand(2, 2))


def test_answers_are_ordinary_tensors_that_can_be_trained_on() -> None:
    answer = Oracle(load_victim(nn.Linear(2, 3), low=0.0, high=1.0)).query(torch.rand(4, 2))
    assert not answer.probs.is_inference()
    assert not answer.probs.requires_grad
    (nn.Linear(2, 3)(torch.rand(4, 2)).softmax(1) * answer.probs).sum().backward()


def test_queries_leave_no_trace_on_the_victim() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    oracle = Oracle(load_victim(model, low=0.0, high=1.0), "logits+smoothgrad:2,0.1")
    oracle.query(torch.rand(9, 2))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())


def test_nothing_is_asked_of_a_bare_module_and_no_budget_is_ignored() -> None:
    with pytest.raises(UsageError, match="expected a victim made by load_victim, got Linear"):
        Oracle(nn.Linear(2, 3))  # type: ignore[arg-type]
    victim = load_victim(nn.Linear(2, 3), low=0.0, high=1.0)
    with pytest.raises(UsageError, match=r"the budget of the ledger \(None\) or none, got 5"):
        Oracle(victim, budget=5, ledger=Ledger())


def test_a_question_in_pieces_is_answered_in_order(victim, counter) -> None:
    x = torch.rand(50, 4)
    answer = Oracle(victim).query(x)
    assert max(map(len, counter.calls)) == victim.batch == 8
    np.testing.assert_allclose(answer.probs, counter(x.numpy()), rtol=1e-6)
