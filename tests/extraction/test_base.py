"""What every attack is given, and what `extract` promises whatever the attack does."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from leakmeter.errors import UsageError
from leakmeter.extraction.base import ATTACKS, Attack, Job, extract, make_attack
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

    def run(self, oracle: Oracle, job: Job) -> nn.Module:
        oracle.query(torch.full((7, 4), 0.5))
        return nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 3)).train()


def test_the_final_copy_is_measured_even_if_the_attack_never_said_a_word(oracle: Oracle, monkeypatch) -> None:
    monkeypatch.setitem(ATTACKS._own, "silent", f"{__name__}:Silent")
    result = extract("silent", oracle, test=torch.rand(20, 4))
    assert [point.queries for point in result.curve] == [7]
    assert result.curve[0].score.n == 20
    assert not result.substitute.training
    assert (result.student, result.untrained) == (None, None)


def test_students_are_made_by_name_by_default_and_by_the_users_own_code(oracle: Oracle, tmp_path) -> None:
    job = Job(0, torch.device("cpu"))
    first, again = (job.student("mlp:5", oracle).state_dict() for _ in range(2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert job.student(None, oracle)(torch.rand(2, 4)).shape == (2, 3)
    (tmp_path / "mine.py").write_text("from torch import nn\ndef net():\n    return nn.Linear(4, 3)\nnumber = list\n")
    assert isinstance(job.student(f"{tmp_path}/mine.py:net", oracle), nn.Linear)
    with pytest.raises(UsageError, match=r"to make an nn\.Module as the substitute, got list"):
        job.student(f"{tmp_path}/mine.py:number", oracle)


def test_the_contact_sheet_keeps_the_first_queries_shown() -> None:
    job, x = Job(0, torch.device("cpu")), torch.rand(100, 4)
    job.show_queries(x)
    job.show_queries(torch.zeros(5, 4))
    assert torch.equal(job.queries, x[:64])
