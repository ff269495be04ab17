"""Rows a remote victim may have answered without our hearing of it stay counted, and the run goes on without them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from leakmeter.checkpoint import DiskCheckpoint
from leakmeter.errors import BudgetExhausted, VictimError
from leakmeter.extraction.base import Extraction, extract
from leakmeter.oracle.ledger import Ledger
from leakmeter.oracle.log import AnswerLog
from leakmeter.oracle.oracle import Oracle
from leakmeter.victims.load import load_victim
from leakmeter.victims.victim import Question, Victim

BUDGET = 400
SMALL = {"steps": 20}
ATTACKS: list[tuple[str, str, dict[str, Any]]] = [
    ("surrogate", "probs", {"recipe": SMALL}),
    ("procedural", "probs", {"committee": 1, "lessons": 0, "learn": SMALL}),
    ("procedural", "labels", {"committee": 1, "lessons": 0, "learn": SMALL, "scout": SMALL}),
    ("dfme", "probs", {"batch": 8, "width": 4}),
    ("codfe", "probs", {"noise": 40, "width": 4, "student_iterations": 2, "generator_iterations": 2}),
    ("dast", "labels", {"batch": 40, "width": 4}),
]


class Unreliable(Victim):
    """A remote victim that answers some questions without being heard."""

    remote = True
    batch = 32

    def __init__(self, fails_at: set[int]) -> None:
        network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3))
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator))
        super().__init__(load_victim(network, input_shape=(1, 8, 8), low=0.0, high=1.0).spec)
        self.network, self.fails_at, self.rows, self.calls = network, fails_at, 0, 0

    def compute(self, x: Tensor, question: Question) -> Tensor:
        self.calls += 1
        self.rows += len(x)
        if self.calls in self.fails_at:
            raise VictimError("the connection broke")
        return self.network(x)


def attempt(victim: Victim, folder: Path, attack: str, view: str, options: dict[str, Any]) -> Extraction:
    ledger, log = Ledger(folder / "ledger.sqlite", budget=BUDGET), AnswerLog(folder / "answers")
    try:
        oracle = Oracle(victim, view, ledger=ledger, log=log)
        keep = lambda name: DiskCheckpoint(folder / f"{name}.pt")  # noqa: E731
        return extract(attack, oracle, seed=0, stops=(100, BUDGET), checkpoints=keep, **options)
    finally:
        ledger.close()
        log.close()


@pytest.mark.parametrize(("attack", "view", "options"), ATTACKS)
@pytest.mark.parametrize("fails_at", [{2}, {3, 4, 5}, {1, 6, 9}])
def test_a_run_that_lost_rows_goes_on_to_its_end(
    tmp_path: Path, attack: str, view: str, options: dict[str, Any], fails_at: set[int]
) -> None:
    victim, done = Unreliable(fails_at), None
    for _ in range(len(fails_at) + 1):
        try:
            done = attempt(victim, tmp_path, attack, view, options)
            break
        except VictimError:
            continue
    assert done is not None
    assert done.curve[-1].queries <= BUDGET
    with_ledger = Ledger(tmp_path / "ledger.sqlite", budget=BUDGET)
    assert victim.rows <= with_ledger.spent() <= BUDGET
    with_ledger.close()


def test_asking_up_to_the_budget_ends_where_replayed_rows_are_never_asked_for(tmp_path: Path) -> None:
    victim = Unreliable(set())
    first = Oracle(
        victim, "labels", ledger=Ledger(tmp_path / "ledger", budget=100), log=AnswerLog(tmp_path / "answers")
    )
    first.query(torch.rand(60, 1, 8, 8))
    first.ledger.close()
    again = Oracle(
        victim, "labels", ledger=Ledger(tmp_path / "ledger", budget=100), log=AnswerLog(tmp_path / "answers")
    )
    assert len(again.query_up_to_budget(torch.rand(80, 1, 8, 8))) == 40
    with pytest.raises(BudgetExhausted):
        again.query_up_to_budget(torch.rand(30, 1, 8, 8))
    assert victim.rows == 100
