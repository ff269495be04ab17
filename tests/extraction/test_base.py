"""What every attack is given, and what `extract` promises whatever the attack does."""

from __future__ import annotations

from typing import ClassVar

import pytest
import scipy.stats
import torch
from torch import nn

from leakmeter.errors import NotApplicable, UsageError
from leakmeter.extraction.base import ATTACKS, Attack, AttackJob, extract, make_attack
from leakmeter.extraction.findings import COLLAPSED, CopyCertificate, Findings, class_counts, class_entropy
from leakmeter.oracle.oracle import Oracle
from leakmeter.training.loop import Recipe
from leakmeter.victims.load import load_victim

QUICK = {"student": "linear", "recipe": Recipe(steps=20, batch=16, lr=1e-2)}


@pytest.fixture
def oracle() -> Oracle:
    torch.manual_seed(0)
    return Oracle(load_victim(nn.Linear(4, 3), low=0.0, high=1.0), budget=100)


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("surogate", {}, r"unknown attack 'surogate'; did you mean 'surrogate'\? \(known: surrogate, "),
        (
            "surrogate",
            {"temprature": 1},
            "the attack 'surrogate' has no option 'temprature'; did you mean 'temperature'",
        ),
        ("surrogate", {"temperature": -1.0}, "the attack 'surrogate': 'temperature': .*greater than 0, got -1.0"),
        ("surrogate", {"recipe": {"steps": 1, "epochs": 1}}, "'recipe': expected one of epochs and steps"),
        (
            "surrogate",
            {"recipe": {"stepz": 1}},
            "no option 'recipe.stepz'; did you mean 'steps'",
        ),
    ],
)
def test_a_wrong_name_or_option_is_answered_with_the_nearest(name: str, options: dict, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence) as caught:
        make_attack(name, options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("stops", [[0], [-5], [101], [50, 200]])
def test_stops_outside_the_budget_are_refused_before_anything_is_asked(oracle: Oracle, stops: list[int]) -> None:
    with pytest.raises(UsageError, match="expected stops between 1 and the 100 queries left"):
        extract("surrogate", oracle, stops=stops, **QUICK)
    assert oracle.ledger.spent() == 0


def test_the_budgets_end_is_always_on_the_curve(oracle: Oracle) -> None:
    test = torch.rand(50, 4), None
    result = extract("surrogate", oracle, stops=[60, 20, 60], test=test, **QUICK)
    assert [point.queries for point in result.curve] == [20, 60, 100]
    assert all(point.score.n == 50 for point in result.curve)
    assert (oracle.ledger.spent("attack"), oracle.ledger.spent("evaluation")) == (100, 50)
    assert result.untrained.n == 50
    assert not result.substitute.training
    assert result.ledger is oracle.ledger


def test_a_budget_partly_spent_is_used_to_its_end_and_an_empty_one_is_refused(oracle: Oracle) -> None:
    oracle.query(torch.rand(70, 4))
    result = extract("surrogate", oracle, **QUICK)
    assert result.curve[-1].queries == 30
    assert oracle.ledger.remaining == 0
    with pytest.raises(UsageError, match="a budget with queries left, got none"):
        extract("surrogate", oracle, **QUICK)


def test_without_test_data_the_curve_has_queries_and_no_scores(oracle: Oracle) -> None:
    result = extract("surrogate", oracle, **QUICK)
    assert [(point.queries, point.score) for point in result.curve] == [(100, None)]
    assert result.untrained is None
    assert oracle.ledger.spent("evaluation") == 0


class Silent(Attack):
    """An attack that never reports and leaves its network in training mode."""

    def run(self, oracle: Oracle, job: AttackJob) -> tuple[nn.Module, Findings]:
        oracle.query(torch.full((7, 4), 0.5))
        return nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 3)).train(), Findings(class_entropy=None)


def test_the_final_copy_is_measured_even_if_the_attack_never_said_a_word(oracle: Oracle, monkeypatch) -> None:
    monkeypatch.setitem(ATTACKS._own, "silent", f"{__name__}:Silent")
    result = extract("silent", oracle, test=torch.rand(20, 4))
    assert [point.queries for point in result.curve] == [7]
    assert result.curve[0].score.n == 20
    assert not result.substitute.training
    assert (result.student, result.untrained) == (None, None)


def test_students_are_made_by_name_by_default_and_by_the_users_own_code(oracle: Oracle, tmp_path) -> None:
    job = AttackJob(0, torch.device("cpu"))
    first, again = (job.student("mlp:5", oracle).state_dict() for _ in range(2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert job.student(None, oracle)(torch.rand(2, 4)).shape == (2, 3)
    (tmp_path / "mine.py").write_text("from torch import nn\ndef net():\n    return nn.Linear(4, 3)\nnumber = list\n")
    assert isinstance(job.student(f"{tmp_path}/mine.py:net", oracle), nn.Linear)
    with pytest.raises(UsageError, match=r"to make an nn\.Module as the substitute, got list"):
        job.student(f"{tmp_path}/mine.py:number", oracle)


def test_the_contact_sheet_keeps_the_first_queries_shown() -> None:
    job, x = AttackJob(0, torch.device("cpu")), torch.rand(100, 4)
    job.show_queries(x)
    job.show_queries(torch.zeros(5, 4))
    assert torch.equal(job.queries, x[:64])


class Boaster(Attack):
    """Says that it has the whole model, and brings a certificate of its own."""

    certified: ClassVar[bool] = True
    single_score: ClassVar[bool] = True

    def run(self, oracle: Oracle, job: AttackJob) -> tuple[nn.Module, Findings]:
        oracle.query(torch.full((7, 4), 0.5))
        perfect = CopyCertificate(points=1, outputs="probs", max_error=0, relative_error=0, bits=None, exact=True)
        return nn.Linear(4, 3), Findings(class_entropy=1.0, complete=True, certificate=perfect)


def test_a_claim_is_measured_and_not_believed(oracle: Oracle, monkeypatch) -> None:
    monkeypatch.setitem(ATTACKS._own, "boaster", f"{__name__}:Boaster")
    result = extract("boaster", oracle)
    assert not result.findings.complete
    assert "the copy is off by" in result.findings.missing
    assert not result.findings.certificate.exact
    assert not result.findings.exact
    assert oracle.ledger.spent("evaluation") == result.findings.certificate.points == 1000
    assert result.curve[-1].score is None


def test_a_certificate_nobody_may_bring_is_dropped(oracle: Oracle, monkeypatch) -> None:
    monkeypatch.setattr(Boaster, "certified", False)
    monkeypatch.setitem(ATTACKS._own, "boaster", f"{__name__}:Boaster")
    assert extract("boaster", oracle).findings.certificate is None


@pytest.mark.parametrize(
    ("name", "view", "net", "says"),
    [
        ("surrogate", "logits", nn.Linear(4, 1), "two class outputs or more"),
        ("procedural", "labels", nn.Linear(4, 1), "two class outputs or more"),
        ("dfme", "probs", nn.Linear(4, 3), r"needs images .* got inputs of shape \(4,\) with limits"),
        ("gradients", "probs", nn.Linear(4, 3), "expected a view with explanations, got 'probs'"),
        ("exact", "probs", nn.Linear(4, 3), r"'exact' needs a view with \+gradient or .*, got 'probs'"),
        ("exact-values", "probs:2", nn.Linear(4, 3), "needs unrounded outputs, got the view 'probs:2'"),
    ],
)
def test_what_does_not_apply_is_said_before_the_first_query(name: str, view: str, net: nn.Module, says: str) -> None:
    oracle = Oracle(load_victim(net, low=0.0, high=1.0, outputs="logits"), view, budget=100)
    with pytest.raises(NotApplicable, match=says):
        extract(name, oracle, test=torch.rand(5, 4))
    assert (oracle.ledger.spent("attack"), oracle.ledger.spent("evaluation")) == (0, 0)


def test_class_entropy_is_one_when_even_zero_on_one_class_and_unknown_on_none() -> None:
    assert class_entropy(torch.tensor([5.0, 5.0, 5.0])) == pytest.approx(1)
    assert class_entropy(torch.tensor([9.0, 0.0, 0.0])) == 0
    assert class_entropy(torch.zeros(3)) is None
    p = torch.tensor([0.7, 0.2, 0.1])
    assert class_entropy(1000 * p) == pytest.approx(scipy.stats.entropy(p.numpy(), base=3), rel=1e-6)


def test_a_single_score_names_two_classes() -> None:
    assert class_counts(torch.tensor([0, 1, 1]), classes=1).tolist() == [1, 2]


def test_a_collapse_is_one_line_for_everybody_and_an_exact_copy_has_none() -> None:
    exact = CopyCertificate(points=1, outputs="logits", max_error=0, relative_error=0, bits=None, exact=True)
    assert Findings(class_entropy=COLLAPSED - 0.01).collapsed
    assert not Findings(class_entropy=COLLAPSED).collapsed
    assert not Findings(class_entropy=None).collapsed
    assert not Findings(class_entropy=0.0, complete=True, certificate=exact).collapsed
    assert Findings(class_entropy=0.0, complete=True).collapsed
