"""Every attack of the package keeps the rules, and the check notices one that does not."""

import pytest
import torch
from torch import nn

from leakmeter.errors import UsageError
from leakmeter.extraction.base import ATTACKS, Attack, make_attack
from leakmeter.extraction.conformance import check_attack

QUICK = {
    "surrogate": ("probs", {"student": "linear", "recipe": {"steps": 5}}),
    "procedural": (
        "labels",
        {
            "student": "linear",
            "committee": 1,
            "lessons": 20,
            **{recipe: {"steps": 5} for recipe in ("scout", "learn", "teach")},
        },
    ),
    "gradients": ("probs+gradient", {"student": "linear", "recipe": {"steps": 5}}),
    "dfme": ("probs", {"student": "linear", "batch": 16, "width": 4}),
    "codfe": ("probs", {"student": "linear", "width": 4, "noise": 50, "batch": 10}),
    "dast": ("labels", {"student": "linear", "width": 4, "batch": 20}),
    "exact": ("logits+gradient", {}),
    "exact-values": ("logits", {}),
}


@pytest.mark.parametrize("name", QUICK)
def test_attacks_keep_the_rules(name: str) -> None:
    view, options = QUICK[name]
    check_attack(make_attack(name, options), view=view)


def test_every_attack_is_checked() -> None:
    assert set(QUICK) == set(ATTACKS)


class Greedy(Attack):
    def run(self, oracle, job):
        while True:
            oracle.query(oracle.spec.sample(64, torch.Generator().manual_seed(0)))


class Careless(Attack):
    def run(self, oracle, job):
        oracle.query(torch.rand(8, *oracle.spec.input_shape))
        job.observe(nn.Flatten(), 8)
        return nn.Linear(64, 3)


@pytest.mark.parametrize(
    ("attack", "rule"), [(Greedy(), "when the budget is spent"), (Careless(), "global random state")]
)
def test_broken_rules_are_named(attack: Attack, rule: str) -> None:
    with pytest.raises(UsageError, match=rule):
        check_attack(attack)
