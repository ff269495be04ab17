"""Victims that no query tells enough about, or whose fidelity means nothing: never a pass, and said in words."""

from __future__ import annotations

import torch
from tests.known_answers.victims import FEATURES, Audit, balanced_net, inputs
from torch import Tensor, nn

from leakmeter.evaluation.score import predict


class Hashed(nn.Module):
    """The class is a hash of the input: nothing can be learned but the answers themselves."""

    def forward(self, x: Tensor) -> Tensor:
        bits = (x.double() * 2**20).long().sum(1) * 2654435761 % 2**31
        return nn.functional.one_hot(bits % 3, 3).float() * 4


class Rare(nn.Module):
    """Names class 1 for one input in a hundred: those whose first number is above 0.99."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([torch.zeros(len(x)), 400 * (x[:, 0] - 0.99)], 1)


class Triggered(nn.Module):
    """A linear model with a corner where its answer is another one."""

    def __init__(self) -> None:
        super().__init__()
        self.net = balanced_net(3)

    def forward(self, x: Tensor) -> Tensor:
        hit = (x > 0.9).all(1, keepdim=True)
        return torch.where(hit, self.net(x).flip(1) * 3, self.net(x))


class Dice(nn.Module):
    """Answers with noise as large as what it knows."""

    def __init__(self) -> None:
        super().__init__()
        self.net = balanced_net(3)
        self.draws = torch.Generator().manual_seed(0)

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.net(x)
        return z + z.std() * torch.randn(z.shape, generator=self.draws)


def test_hashed_labels_are_no_pass(audit: Audit) -> None:
    found = audit(Hashed(), views=["labels"])
    assert not found.check("copies beat the control").ok
    assert found.verdict.outcome == "undecided"
    assert "no attack made a 90% copy within 200 queries in 3 tries" in found.text


def test_a_copy_of_a_majority_is_told_from_a_copy_of_the_model(audit: Audit) -> None:
    x = inputs(1000)
    x[:10, 0], x[10:, 0] = 0.995, x[10:, 0] * 0.98
    found = audit(Rare(), x, budget=100)
    assert "always naming one class would agree on 99.0%" in found.verdict.headline
    assert "With every class counted once" in found.text
    assert "never name 1 class that the model names" in found.text
    assert found.verdict.rulings[0].outcome == "undecided"
    assert "a line at 90.0% says nothing" in found.verdict.rulings[0].message
    assert not found.check("copies beat a constant").ok


def test_a_trigger_that_no_query_meets_is_no_exact_copy(audit: Audit) -> None:
    x = inputs()
    x[:30] = 0.9 + 0.1 * torch.rand(30, FEATURES, generator=torch.Generator().manual_seed(1))
    net = Triggered()
    assert (predict(net, x[:30]).argmax(1) != predict(net.net, x[:30]).argmax(1)).any()
    found = audit(net, x, views=["logits+gradient"], attacks=[{"name": "exact"}], budget=800)
    assert "copied exactly" not in found.text
    assert not any(arm.whole for arm in found.verdict.arms)
    complete = [cell for cell in found.result.cells if cell.findings is not None and cell.findings.complete]
    assert found.check("certificates true").ok == (not complete)


def test_answers_at_random_are_not_to_be_believed(audit: Audit) -> None:
    found = audit(Dice())
    assert not found.check("victim repeatable").ok
    assert found.verdict.outcome != "pass"
    steady = audit(balanced_net(3))
    assert steady.check("victim repeatable").ok


def test_answers_that_are_all_zero_or_one_say_little(audit: Audit) -> None:
    assert not audit(balanced_net(3, scale=3000.0)).check("answers informative").ok
    assert audit(balanced_net(3)).check("answers informative").ok


def test_a_poor_copy_passes_only_with_seeds_enough(audit: Audit) -> None:
    """Four queries to a network of many bends: the thief gets little, and one try cannot say that none gets more."""
    many = audit(balanced_net(64, 4, scale=9.0), budget=4, seeds=list(range(8)), views=["labels"])
    few = audit(balanced_net(64, 4, scale=9.0), budget=4, seeds=[0], views=["labels"])
    assert few.verdict.rulings[0].outcome == "undecided"
    assert "it would take" in few.verdict.rulings[0].message
    assert many.verdict.rulings[0].outcome == "pass"
    assert "0 of 8 tries reach 90.0%" in many.verdict.rulings[0].message
