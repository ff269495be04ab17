"""A process dies at any moment; the next one repeats its questions and pays for none of them twice."""

from __future__ import annotations

from contextlib import suppress

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leakmeter.errors import BudgetExhausted, Inconclusive, UsageError
from leakmeter.oracle.ledger import EVALUATION, Ledger
from leakmeter.oracle.log import AnswerLog
from leakmeter.oracle.oracle import Oracle


class Killed(BaseException):
    """Stands for kill -9: nothing in the library may catch it."""


def questions(n: int) -> list[torch.Tensor]:
    return [torch.rand(5 + 4 * i, 4, generator=torch.Generator().manual_seed(i)) for i in range(n)]


def kill_at(monkeypatch, method: str, after: int) -> None:
    """The process dies in the call number `after` of a method of the log or of the oracle, before it does anything."""
    owner = AnswerLog if method == "append" else Oracle
    real, calls = getattr(owner, method), [0]

    def dying(*args: object, **named: object) -> object:
        calls[0] += 1
        if calls[0] > after:
            raise Killed
        return real(*args, **named)

    monkeypatch.setattr(owner, method, dying)


def test_what_was_logged_is_replayed_bit_for_bit_and_not_charged(door, counter) -> None:
    first = door(budget=200)
    before = [first.query(x).probs for x in questions(5)]
    spent, computed = first.ledger.spent(), counter.rows
    again = door(budget=200)
    assert again.ledger.spent() == spent
    assert again.remaining == 200, "what was paid and not asked again yet is still the attack's"
    for x, probs in zip(questions(5), before, strict=True):
        assert torch.equal(again.query(x).probs, probs)
    assert (again.ledger.spent(), counter.rows, again.remaining) == (spent, computed, 200 - spent)
    assert again.position == first.position


def test_repeats_count_each_time_also_when_replayed(door, counter) -> None:
    x = torch.rand(3, 4)
    first = door()
    for _ in range(4):
        first.query(x)
    assert first.ledger.spent() == counter.rows == 12
    again = door()
    for _ in range(5):
        again.query(x)
    assert again.ledger.spent() == counter.rows == 15


@pytest.mark.parametrize("method", ["append", "_compute", "_reserve"])
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kills=st.lists(st.integers(0, 6), min_size=1, max_size=3))
def test_killed_again_and_again_the_count_and_the_answers_stay_those_of_one_run(
    victim, counter, tmp_path_factory, method: str, kills: list[int]
) -> None:
    """`append` is between the answer and its record, `_compute` between the entry and the answer."""

    def ask_all(folder) -> list[torch.Tensor]:
        ledger, log = Ledger(folder / "ledger.sqlite", budget=100), AnswerLog(folder / "answers")
        try:
            oracle = Oracle(victim, ledger=ledger, log=log)
            judged = oracle.judge(questions(1)[0]).probs
            return [judged, *(oracle.query(x).probs for x in questions(5))]
        finally:
            ledger.close()
            log.close()

    straight = ask_all(tmp_path_factory.mktemp("straight"))
    folder = tmp_path_factory.mktemp("killed")
    for after in kills:
        with pytest.MonkeyPatch.context() as patch, suppress(Killed):
            kill_at(patch, method, after)
            ask_all(folder)
    counter.calls.clear()
    assert all(torch.equal(a, b) for a, b in zip(ask_all(folder), straight, strict=True))
    ledger = Ledger(folder / "ledger.sqlite", budget=100)
    assert ledger.spent() == sum(len(x) for x in questions(5))
    assert ledger.spent(EVALUATION) == len(questions(1)[0])
    assert ledger.entry("attack").unconfirmed == 0
    ledger.close()


def test_a_remote_answer_that_was_lost_stays_counted_and_the_repeat_is_a_query_of_its_own(
    door, victim, counter, monkeypatch
) -> None:
    victim.remote = True
    x, y = torch.rand(8, 4), torch.rand(5, 4)
    with monkeypatch.context() as patch:
        kill_at(patch, "append", 1)
        oracle = door(budget=40)
        oracle.query(x)
        with pytest.raises(Killed):
            oracle.query(y)
    for _ in range(3):  # opening a run again and again must not count anything again
        entry = door(budget=40).ledger.entry("attack")
        assert (entry.queries, entry.unconfirmed) == (13, 5)
    again = door(budget=40)
    assert (oracle.lost, again.lost, again.remaining) == (0, 5, 35)  # eight wait to be asked again, five are gone
    again.query(x)
    again.query(y)
    entry = again.ledger.entry("attack")
    assert (entry.queries, entry.unconfirmed) == (18, 5)
    assert counter.rows == 18


def test_seek_skips_what_a_checkpoint_already_holds(door, counter) -> None:
    first = door()
    xs = questions(4)
    first.query(xs[0])
    first.query(xs[1])
    held, computed = first.position, counter.rows
    late = [first.query(xs[2]).probs, first.query(xs[0]).probs]
    again = door()
    again.seek(held)
    assert again.position == held
    assert torch.equal(again.query(xs[2]).probs, late[0])
    assert torch.equal(again.query(xs[0]).probs, late[1])
    assert counter.rows == computed + len(xs[2]) + len(xs[0])
    again.query(xs[0])
    assert again.ledger.spent() == counter.rows == computed + len(xs[2]) + 2 * len(xs[0])


def test_the_budget_ends_a_resumed_run_where_it_ended_the_first(door, counter) -> None:
    x = torch.rand(30, 4)

    def greedy(oracle: Oracle) -> torch.Tensor:
        oracle.query(x[:10])
        with pytest.raises(BudgetExhausted) as caught:
            oracle.query(x[10:])
        return oracle.query(x[10 : 10 + caught.value.remaining]).probs

    first = greedy(door(budget=21))
    assert len(first) == 11
    assert torch.equal(greedy(door(budget=21)), first)
    assert counter.rows == 21


def test_an_answer_is_replayed_to_its_own_account_and_view_only(door, counter) -> None:
    x = torch.rand(3, 4)
    door(view="labels").query(x)
    with pytest.raises(UsageError, match="does not show probabilities"):
        _ = door(view="labels").query(x).probs
    judged = door(view="labels").judge(x)
    assert judged.probs.shape == (3, 3)
    assert door(view="probs").query(x).probs.shape == (3, 3)


def test_answers_the_ledger_never_counted_are_no_pass(door, tmp_path) -> None:
    oracle = door()
    oracle.query(torch.rand(3, 4))
    oracle.ledger.close()
    for path in tmp_path.glob("ledger.sqlite*"):
        path.unlink()
    with pytest.raises(Inconclusive, match="never counted"):
        door()


def test_a_damaged_answer_is_named_when_it_is_needed(door, tmp_path) -> None:
    x = torch.rand(3, 4)
    door().query(x)
    path = tmp_path / "answers" / "answers.bin"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(Inconclusive, match="damaged at byte"):
        door().query(x)


def test_the_clients_cache_is_counted_apart(victim, counter) -> None:
    oracle = Oracle(victim, budget=5, cache=True)
    x = torch.rand(5, 4)
    first = oracle.query(x[[0, 1, 0, 2]])
    assert torch.equal(first.probs[0], first.probs[2])
    second = oracle.query(x[[2, 1, 3, 4]])
    assert torch.equal(second.probs[:2], first.probs[[3, 1]])
    entry = oracle.ledger.entry("attack")
    assert (entry.queries, entry.cached, counter.rows, oracle.ledger.remaining) == (5, 3, 5, 0)
    assert len(oracle.query(x)) == 5
    with pytest.raises(BudgetExhausted):
        oracle.query(torch.rand(1, 4))


def test_a_cache_does_not_go_with_a_log(door) -> None:
    with pytest.raises(UsageError, match="cache=True or a log, got both"):
        door(cache=True)
