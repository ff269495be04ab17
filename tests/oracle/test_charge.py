"""Questions that a remote victim is sent twice are counted twice, and before they leave."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from leakmeter.box import Box
from leakmeter.errors import BudgetExhausted, VictimError
from leakmeter.oracle.ledger import ATTACK, EVALUATION, Ledger
from leakmeter.oracle.log import AnswerLog
from leakmeter.oracle.oracle import Oracle
from leakmeter.victims.spec import VictimSpec
from leakmeter.victims.victim import Question, Responder, Victim


class Deaf(Victim):
    """Computes every time it is asked, but is heard only after `losses` repeats a piece."""

    remote = True
    batch = 4

    def __init__(self, losses: int = 0, *, dies: bool = False) -> None:
        super().__init__(VictimSpec("deaf", (2,), Box(None, None), 2, "logits"))
        self.losses, self.dies, self.seen = losses, dies, 0

    def compute(self, x: Tensor, question: Question) -> Tensor:
        self.seen += len(x)
        for _ in range(self.losses):
            question.charge(len(x))
            self.seen += len(x)
        if self.dies:
            raise ConnectionError("gone")
        return x


class Wrapper:
    """A defense that knows nothing of repeats: it hands on the question."""

    def __init__(self, inner: Responder) -> None:
        self.spec, self.remote, self.differentiable, self.batch = inner.spec, inner.remote, False, inner.batch
        self._inner = inner

    def respond(self, x: Tensor, question: Question) -> Tensor:
        return self._inner.respond(x, question)


@pytest.mark.parametrize("wrap", [lambda victim: victim, Wrapper])
def test_repeats_are_counted_on_the_account_that_asked(wrap) -> None:
    victim = Deaf(losses=2)
    oracle = Oracle(wrap(victim), "logits", budget=100)
    oracle.query(torch.rand(6, 2))
    attack = oracle.ledger.entry(ATTACK)
    assert (attack.queries, attack.unconfirmed) == (18, 12)
    oracle.judge(torch.rand(3, 2))
    assert oracle.ledger.spent(EVALUATION) == 9
    assert victim.seen == 27


def test_a_repeat_that_the_budget_cannot_pay_is_not_sent() -> None:
    victim = Deaf(losses=3)
    oracle = Oracle(victim, "logits", budget=11)
    with pytest.raises(BudgetExhausted) as caught:
        oracle.query(torch.rand(4, 2))
    assert caught.value.remaining == 3
    entry = oracle.ledger.entry(ATTACK)
    assert victim.seen == entry.queries == entry.unconfirmed == 8


def test_what_a_failing_question_leaves_open_is_unconfirmed() -> None:
    oracle = Oracle(Deaf(dies=True), "logits", budget=20)
    with pytest.raises(VictimError):
        oracle.query(torch.rand(10, 2))
    entry = oracle.ledger.entry(ATTACK)
    assert (entry.queries, entry.unconfirmed) == (10, 10)


def test_a_resumed_run_replays_answers_and_not_repeats(tmp_path: Path) -> None:
    def door() -> Oracle:
        ledger = Ledger(tmp_path / "ledger.sqlite", budget=100)
        return Oracle(victim, "logits", ledger=ledger, log=AnswerLog(tmp_path / "answers"))

    victim, x = Deaf(losses=1), torch.rand(6, 2)
    first = door().query(x)
    again = door()
    assert torch.equal(again.query(x).logits, first.logits)
    assert (victim.seen, again.ledger.spent()) == (12, 12)


@pytest.mark.parametrize(
    ("budget", "losses", "answered", "spent"),
    [(100, 0, 10, 10), (7, 0, 7, 7), (100, 1, 10, 20), (18, 1, 8, 18), (9, 1, 4, 9), (13, 1, 4, 13)],
)
def test_what_the_budget_still_pays_is_asked_and_answered(budget, losses, answered, spent) -> None:
    victim, x = Deaf(losses), torch.rand(10, 2)
    oracle = Oracle(victim, "logits", budget=budget)
    answer = oracle.query_up_to_budget(x)
    assert torch.equal(answer.logits, x[:answered])
    assert oracle.ledger.spent() == spent >= victim.seen


def test_a_budget_that_pays_for_nothing_is_told() -> None:
    oracle = Oracle(Deaf(losses=1), "logits", budget=1)
    with pytest.raises(BudgetExhausted):
        oracle.query_up_to_budget(torch.rand(10, 2))
    assert oracle.ledger.spent() == 1


def test_outside_an_oracle_nothing_is_charged() -> None:
    x = torch.rand(3, 2)
    assert torch.equal(Deaf(losses=2).respond(x, Question(torch.Generator())), x)
