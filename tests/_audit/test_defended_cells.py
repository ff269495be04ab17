"""Defenses in an audit: what cannot be shown is skipped and says why, what can be is priced for honest users."""

from pathlib import Path

import pytest
import torch

import leakmeter as lm
from leakmeter.results import AuditResult, CellResult

DEFENSES = ["none", "labels", "noise:0.2", "reverse-sigmoid:0.2,0.9", "reverse-sigmoid:0.2,0.9/adaptive"]
PLAN = {
    "victim": {"source": "here"},
    "data": {"name": "digits", "limit": 150},
    "views": ["probs", "labels"],
    "defenses": DEFENSES,
    "budget": 130,
    "stops": [130],
    "seeds": [0],
    "attacks": [{"name": "surrogate", "student": "linear", "pool": "gaussian", "recipe": {"steps": 20}}],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def result(folder: Path) -> AuditResult:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    victim = lm.load_victim(net, input_shape=(1, 8, 8), low=0.0, high=1.0)
    return lm.audit(PLAN, victim=victim, out=folder)


@pytest.fixture
def cells(result: AuditResult) -> dict[tuple[str, str], CellResult]:
    return {(cell.defense, cell.view): cell for cell in result.cells}


def test_what_cannot_be_shown_or_undone_is_skipped_with_its_reason(cells) -> None:
    skipped = {key: cell.error for key, cell in cells.items() if cell.status != "done"}
    assert set(skipped) == {("labels", "probs"), ("reverse-sigmoid:0.2,0.9/adaptive", "labels")}
    assert all(cells[key].status == "skipped" for key in skipped)
    assert "the view probs needs a victim that returns logits or probs, got labels" in skipped["labels", "probs"]
    assert "undoing reverse-sigmoid:0.2,0.9 takes all probabilities" in skipped[DEFENSES[-1], "labels"]


def test_utility_is_measured_once_for_each_defense(cells) -> None:
    def cost(defense: str, view: str = "probs") -> dict:
        return cells[defense, view].notes["utility"]

    assert cost("none")["distortion"] == pytest.approx(0, abs=1e-9)
    assert cost("none")["accuracy_loss"] == cost("noise:0.2")["accuracy_loss"] == 0
    assert cost("noise:0.2")["agreement"] == 1.0
    assert 0.1 < cost("noise:0.2")["distortion"] < 0.9
    assert cost("labels", "labels")["distortion"] > 0.3  # an untrained net is far from certain
    assert cost(DEFENSES[3]) == cost(DEFENSES[4])  # who attacks makes no difference to honest users


def test_evaluation_counts_what_utility_asked(cells) -> None:
    def asked(defense: str) -> int:
        spending = cells[defense, "probs"].spending
        assert spending is not None
        return spending.evaluation

    assert asked("noise:0.2") == asked("none") + 150


def test_detectors_see_every_query_and_leave_nothing_behind(cells, folder: Path) -> None:
    (note,) = cells["none", "probs"].notes["detector"]
    assert (note["detector"], note["queries"]) == ("prada", 130)
    assert not list(folder.glob("*/cells/*/asked"))


def test_an_adaptive_attacker_copies_better(cells) -> None:
    def kl(defense: str) -> float:
        final = cells[defense, "probs"].final
        assert final is not None
        assert final.score is not None
        assert final.score.kl is not None
        return final.score.kl

    assert abs(kl(DEFENSES[4]) - kl("none")) < abs(kl(DEFENSES[3]) - kl("none"))
