"""What the victim's own answers say about an audit of it."""

from __future__ import annotations

from typing import cast

import pytest
import torch
from torch import Tensor, nn

from leakmeter.evaluation.health import health
from leakmeter.evaluation.score import Reference, reference
from leakmeter.oracle.answer import Answer
from leakmeter.oracle.oracle import Oracle
from leakmeter.oracle.view import View
from leakmeter.victims.load import load_victim


class Sharp(nn.Module):
    """Answers with one probability of about 1 - gap; with noise, differently each time."""

    def __init__(self, gap: float, noise: float = 0.0) -> None:
        super().__init__()
        self.logit, self.noise = float(torch.logit(torch.tensor(1 - gap, dtype=torch.float64))), noise
        self.draws = torch.Generator().manual_seed(0)

    def forward(self, x: Tensor) -> Tensor:
        z = self.logit * (2 * (x[:, :1] > 0.5).double() - 1)
        z = z + self.noise * torch.randn(z.shape, generator=self.draws)
        return torch.cat([z, torch.zeros_like(z)], 1)


def found(victim: nn.Module) -> dict[str, object]:
    x = torch.rand(50, 3, generator=torch.Generator().manual_seed(1))
    oracle = Oracle(load_victim(victim, input_shape=(3,), low=0.0, high=1.0), "probs")
    return health(oracle, reference(oracle, x))


@pytest.mark.parametrize(("noise", "repeatable"), [(0.0, True), (0.1, False)])
def test_answers_that_differ_when_asked_again(noise: float, repeatable: bool) -> None:
    assert found(Sharp(0.1, noise))["repeatable"] is repeatable


@pytest.mark.parametrize(("gap", "share"), [(1e-2, 0.0), (1e-6, 0.0), (1e-8, 1.0)])
def test_answers_that_are_zero_or_one(gap: float, share: float) -> None:
    assert found(Sharp(gap))["saturated"] == share


class Scored(nn.Module):
    """One score, far from any boundary."""

    def forward(self, x: Tensor) -> Tensor:
        return 100 + x[:, :1]


def test_saturation_is_about_probabilities_only() -> None:
    x = torch.rand(5, 3)
    oracle = Oracle(load_victim(Scored(), input_shape=(3,), low=0.0, high=1.0), "logits")
    assert health(oracle, reference(oracle, x)) == {"repeatable": True, "saturated": None}
    named = lambda x: (x[:, 0] > 0.5).astype("int64")  # noqa: E731
    labels = load_victim(named, input_shape=(3,), low=0.0, high=1.0, outputs="labels", classes=2)
    oracle = Oracle(labels, "labels")
    assert health(oracle, reference(oracle, x))["saturated"] is None


class Repeating:
    """An oracle that answers what it is told, and remembers how much it was asked."""

    def __init__(self, again: Tensor) -> None:
        self.again, self.asked = again, 0

    def judge(self, x: Tensor) -> Answer:
        self.asked += len(x)
        return Answer(View("probs"), 2, {"probs": self.again[: len(x)]})


def looked_at(before: Tensor, again: Tensor) -> tuple[dict[str, object], int]:
    oracle = Repeating(again)
    truth = Reference(torch.rand(len(before), 3), None, Answer(View("probs"), 2, {"probs": before}))
    return health(cast(Oracle, oracle), truth), oracle.asked


def test_a_few_inputs_are_asked_again_and_a_difference_of_rounding_is_none() -> None:
    before = torch.full((40, 2), 0.5, dtype=torch.float64)
    assert looked_at(before, before) == ({"repeatable": True, "saturated": 0.0}, 32)
    for step, repeatable in ((0.0014, True), (0.0016, False)):  # a thousandth, and a thousandth of the value
        assert looked_at(before, before + step)[0]["repeatable"] is repeatable


@pytest.mark.parametrize(("gap", "share"), [(1e-7, 0.0), (0.99e-7, 1.0)])
def test_a_probability_is_zero_or_one_where_it_is_closer_than_single_precision_tells(gap: float, share: float) -> None:
    probs = torch.tensor([[gap, 1 - gap]], dtype=torch.float64).expand(4, 2)
    assert looked_at(probs, probs)[0]["saturated"] == share
