"""The generator attacks survive a kill: same weights, no answer paid for twice."""

from pathlib import Path

import pytest
import torch
from torch import nn

from leakmeter.errors import UsageError, VictimError
from leakmeter.extraction.base import extract
from leakmeter.oracle.oracle import Oracle
from leakmeter.runs.run import Run
from leakmeter.victims.load import load_victim

ATTACKS = {
    "dfme": {"batch": 8, "width": 4, "replays": 2, "memory": 50},
    "codfe": {"noise": 20, "batch": 10, "student_iterations": 2, "generator_iterations": 2, "width": 4, "memory": 50},
    "dast": {"batch": 12, "width": 2},
}
BUDGET = 240


class Killed(Exception):
    pass


class FragileNet(nn.Sequential):
    """A victim whose process dies at a given call."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        super().__init__(nn.Flatten(), nn.Linear(64, 3))
        self.calls, self.dies_at = 0, -1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if self.calls == self.dies_at:
            raise Killed
        return super().forward(x)


def attack(name: str, net: FragileNet, run: Run) -> tuple[list[torch.Tensor], Oracle, dict]:
    victim = load_victim(net, input_shape=(1, 8, 8), low=0.0, high=1.0, classes=3, outputs="logits")
    oracle = Oracle(victim, view="probs", ledger=run.ledger(BUDGET), log=run.answers())
    result = extract(name, oracle, seed=3, stops=[120], checkpoints=run.checkpoint, student="mlp:8", **ATTACKS[name])
    facts = {"curve": result.curve, "notes": result.notes, "findings": result.findings}
    return list(result.substitute.parameters()), oracle, facts


@pytest.mark.parametrize("name", list(ATTACKS))
def test_a_killed_attack_goes_on_to_the_same_weights(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leakmeter.checkpoint._SECONDS", 0.0)
    whole, _, facts = attack(name, FragileNet(), Run.enter(tmp_path / "whole", {}))
    net = FragileNet()
    net.dies_at = 6
    path = tmp_path / "killed"
    with pytest.raises((Killed, VictimError)):
        attack(name, net, Run.enter(path, {}))
    resumed, oracle, again = attack(name, FragileNet(), Run.enter(path, {}))
    assert all(torch.equal(a, b) for a, b in zip(whole, resumed, strict=True))
    assert oracle.ledger.spent() <= BUDGET
    assert again == facts


@pytest.mark.parametrize("name", list(ATTACKS))
def test_without_a_budget_there_is_no_end(name: str) -> None:
    victim = load_victim(FragileNet(), input_shape=(1, 8, 8), low=0.0, high=1.0, classes=3, outputs="logits")
    with pytest.raises(UsageError, match="budget"):
        extract(name, Oracle(victim), student="linear", **ATTACKS[name])


def test_a_victim_of_one_opinion_is_reported_as_collapse() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    nn.init.zeros_(net[1].weight)
    net[1].bias.data = torch.tensor([5.0, 0.0, 0.0])
    victim = load_victim(net, input_shape=(1, 8, 8), low=0.0, high=1.0, classes=3, outputs="logits")
    for name, options in ATTACKS.items():
        findings = extract(name, Oracle(victim, budget=BUDGET), student="linear", **options).findings
        assert (findings.class_entropy, findings.collapsed, findings.student) == (0, True, "linear"), name


def test_lemma_1_of_codfe_is_false_as_it_stands() -> None:
    """Both confidences rise, as the lemma supposes, and the loss rises too: a student that is too sure is wrong."""

    def loss(victim: torch.Tensor, student: torch.Tensor) -> float:
        return float(-(victim * student.log()).sum())

    before = torch.tensor([0.6, 0.4]), torch.tensor([0.6, 0.4])
    after = torch.tensor([0.61, 0.39]), torch.tensor([0.99, 0.01])
    assert all(late[0] > early[0] for early, late in zip(before, after, strict=True))
    assert loss(*after) > loss(*before)


def test_codfe_notes_the_loss_of_its_student(tmp_path: Path) -> None:
    _, _, facts = attack("codfe", FragileNet(), Run.enter(tmp_path, {}))
    notes = facts["notes"]["answers"]
    assert [note["queries"] for note in notes] == [120, BUDGET]
    assert all(0 < note["loss"] < 10 for note in notes)
