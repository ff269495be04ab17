"""Victims that name few classes, or are too sure of them: what a copy of those is worth, as an owner reads it."""

from __future__ import annotations

import pytest
import torch
from tests.known_answers.victims import Audit, balanced_net, inputs
from torch import Tensor, nn

from leakmeter.evaluation.score import predict


class Leaning(nn.Module):
    """Three classes of 95, 3 and 2 per cent, told by the first number alone."""

    def forward(self, x: Tensor) -> Tensor:
        first = x[:, 0]
        return 40 * torch.stack([torch.full_like(first, 0.5), first - 0.47, 0.52 - first], 1)


class TwoOfTen(nn.Module):
    """Ten classes, of which it names two, nine times in ten the same."""

    def forward(self, x: Tensor) -> Tensor:
        z = torch.full((len(x), 10), -5.0)
        z[:, 3], z[:, 7] = 0.0, 8 * (x[:, 0] - 0.9)
        return z


def test_three_classes_of_which_one_is_nearly_all(audit: Audit) -> None:
    x = inputs(1000)
    x[:, 0] = torch.linspace(0, 1, 1000)
    shares = predict(Leaning(), x).argmax(1).bincount(minlength=3) / 1000
    assert shares.tolist() == pytest.approx([0.95, 0.03, 0.02], abs=0.01)
    blind = audit(Leaning(), x, budget=3, views=["labels"])
    assert f"always naming one class would agree on {shares[0]:.1%}" in blind.verdict.headline
    assert blind.verdict.outcome == "undecided"
    assert "a line at 90.0% says nothing" in blind.verdict.rulings[0].message
    assert "With every class counted once" in blind.text
    assert not blind.check("copies beat a constant").ok


def test_two_classes_of_ten_are_copied_and_called_no_collapse(audit: Audit) -> None:
    found = audit(TwoOfTen(), policy={"max_fidelity": {"queries": 200, "value": 0.95}})
    constant = float((predict(TwoOfTen(), inputs()).argmax(1) == 3).double().mean())
    assert f"always naming one class would agree on {constant:.1%}" in found.verdict.headline
    assert "never name" not in found.text  # eight classes that the model does not name either are not missed
    assert found.check("queries diverse").ok
    assert found.verdict.outcome != "pass"


def test_a_model_too_sure_to_explain_itself_is_not_called_copied(audit: Audit) -> None:
    """Probabilities of 0 and 1 have no slope: whoever reads gradients sees a constant."""

    class Sure(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = balanced_net(3, scale=3000.0)

        def forward(self, x: Tensor) -> Tensor:
            return self.net(x).softmax(1)

    found = audit(
        Sure(), views=["probs+gradient"], attacks=[{"name": "exact"}], seeds=[0], spec={"outputs": "probs"}, budget=100
    )
    assert "copied exactly" not in found.text
    assert not any(arm.whole for arm in found.verdict.arms)
    assert found.verdict.outcome != "pass"
    assert "The attack that reads gradient failed: what showing it gives away was not measured." in found.text
    assert "the victim's probabilities are 0 wherever it was asked" in found.check("all cells finished").message
