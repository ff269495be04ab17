"""The plain attacker."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import leakmeter as lm
from leakmeter.errors import NotApplicable, UsageError


def linear_victim(features: int = 12, classes: int = 3) -> lm.Victim:
    torch.manual_seed(4)
    return lm.load_victim(nn.Linear(features, classes), input_shape=(features,), low=-1.0, high=1.0, outputs="logits")


@pytest.mark.parametrize("view", ["labels", "probs", "top:1"])
def test_it_reads_the_label_of_any_view_and_copies_a_linear_model(view: str) -> None:
    victim = linear_victim()
    test = torch.rand(500, 12) * 2 - 1
    copies = {}
    for shown in ("labels", view):
        copy = lm.extract("plain", lm.Oracle(victim, shown, 600), test=test)
        copies[shown] = copy.substitute(test)
        assert copy.curve[-1].score is not None
        assert copy.curve[-1].score.fidelity > 0.93
    assert torch.equal(copies["labels"], copies[view])


def test_trees_are_copied_by_trees() -> None:
    """A victim that looks at one threshold away from the middle of the box in each of two features."""

    class Boxes(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            inside = ((x[:, 0] > 0.7) ^ (x[:, 1] < -0.6)).float()
            return torch.stack([1 - inside, inside], 1) * 5

    victim = lm.load_victim(Boxes(), input_shape=(4,), low=-1.0, high=1.0, classes=2, outputs="logits")
    copy = lm.extract("plain", lm.Oracle(victim, "labels", 1000), test=torch.rand(500, 4) * 2 - 1)
    assert {trial.name: trial.chosen for trial in copy.findings.tried} == {"linear": False, "bagged": True}


def test_what_it_cannot_do_is_said() -> None:
    large = lm.load_victim(nn.Flatten(), input_shape=(3, 48, 48), low=0.0, high=1.0, classes=6912, outputs="logits")
    with pytest.raises(NotApplicable, match="6912 are too many"):
        lm.extract("plain", lm.Oracle(large, "labels", 10))
    with pytest.raises(UsageError, match="needs an end"):
        lm.extract("plain", lm.Oracle(linear_victim(), "labels"))
