"""Every attack of the package keeps the rules, and the check notices one that does not."""

import pytest
import torch
from torch import nn

from leakmeter.errors import NotApplicable, UsageError
from leakmeter.extraction.base import ATTACKS, Attack, make_attack
from leakmeter.extraction.certificate import CopyCertificate
from leakmeter.extraction.conformance import check_attack
from leakmeter.extraction.findings import Findings

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
    "counterfactual": ("labels+counterfactual", {"student": "linear", "recipe": {"steps": 5}}),
    "dfme": ("probs", {"student": "linear", "batch": 16, "width": 4}),
    "codfe": ("probs", {"student": "linear", "width": 4, "noise": 50, "batch": 10}),
    "dast": ("labels", {"student": "linear", "width": 4, "batch": 20}),
    "plain": ("probs", {}),
    "auto": ("probs:1", {"effort": 0.005, "students": ("dense",), "sources": ("uniform",)}),
    "exact": ("logits+gradient", {}),
    "exact-values": ("logits", {}),
}


@pytest.mark.parametrize("name", QUICK)
def test_attacks_keep_the_rules(name: str) -> None:
    view, options = QUICK[name]
    check_attack(make_attack(name, options), view=view)


def test_every_attack_is_checked() -> None:
    tables_only = {"exact-tree", "tabular"}  # checked on a table, where they are tested
    assert set(QUICK) | tables_only == set(ATTACKS)


class Greedy(Attack):
    def run(self, oracle, job):
        while True:
            oracle.query(oracle.spec.sample(64, torch.Generator().manual_seed(0)))


class Careless(Attack):
    def run(self, oracle, job):
        oracle.query(torch.rand(8, *oracle.spec.input_shape))
        job.observe(nn.Flatten(), 8)
        return nn.Linear(64, 3), Findings(class_entropy=1.0)


class Constant(Attack):
    student: str | None = None
    findings: Findings = Findings(class_entropy=1.0, student="linear")

    def run(self, oracle, job):
        oracle.query_up_to_budget(oracle.spec.sample(8, torch.Generator().manual_seed(0)))
        return nn.Sequential(nn.Flatten(), nn.Identity(), nn.utils.skip_init(nn.Linear, 64, 3)), self.findings


class Late(Attack):
    def run(self, oracle, job):
        raise NotApplicable("not this victim")


PROUD = CopyCertificate(points=1, outputs="probs", max_error=0, relative_error=0, bits=None, exact=True)


@pytest.mark.parametrize(
    ("attack", "rule"),
    [
        (Greedy(), "when the budget is spent"),
        (Careless(), "global random state"),
        (Late(), "`check` must say it before `run` does: not this victim"),
        (Constant(findings=Findings(class_entropy=None, student="linear")), "class entropy of its answers"),
        (Constant(findings=Findings(class_entropy=1.0)), "which student its copy is"),
        (Constant(findings=Findings(class_entropy=1.0, student="linear", certificate=PROUD)), "never by it"),
    ],
)
def test_broken_rules_are_named(attack: Attack, rule: str) -> None:
    with pytest.raises(UsageError, match=rule):
        check_attack(attack)
