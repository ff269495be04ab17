"""No interleaving of threads, processes or failures passes the budget, and nothing counted is ever lost."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from leakmeter.errors import BudgetExhausted, Inconclusive, UsageError
from leakmeter.oracle.ledger import ATTACK, EVALUATION, Entry, Ledger, Prices, recorded
from leakmeter.oracle.oracle import Oracle

SIZES = st.lists(st.integers(1, 30), min_size=1, max_size=4)


class Accountant(RuleBasedStateMachine):
    """A ledger file opened twice, against sums kept by hand."""

    BUDGET = 100

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "ledger.sqlite"
        self.ledgers = [Ledger(self.path, budget=self.BUDGET) for _ in range(2)]
        self.queries = {ATTACK: 0, EVALUATION: 0}
        self.explained = {ATTACK: 0, EVALUATION: 0}
        self.asks: list[tuple[int, str, int]] = []
        self.lost: set[int] = set()
        self.cached = 0

    @rule(which=st.integers(0, 1), sizes=SIZES, account=st.sampled_from([ATTACK, EVALUATION]), explain=st.booleans())
    def reserve(self, which: int, sizes: list[int], account: str, explain: bool) -> None:
        rows = sum(sizes)
        explanations = rows if explain else 0
        if account == ATTACK and self.queries[ATTACK] + rows > self.BUDGET:
            with pytest.raises(BudgetExhausted) as caught:
                self.ledgers[which].reserve(account, sizes, explanations=explanations)
            assert (caught.value.asked, caught.value.remaining) == (rows, self.BUDGET - self.queries[ATTACK])
            return
        ids = self.ledgers[which].reserve(account, sizes, explanations=explanations, work=3 * explanations)
        assert len(ids) == len(sizes)
        self.asks += [(ask, account, size) for ask, size in zip(ids, sizes, strict=True)]
        self.queries[account] += rows
        self.explained[account] += explanations

    @rule(which=st.integers(0, 1), rows=st.integers(0, 9))
    def cache(self, which: int, rows: int) -> None:
        self.ledgers[which].note_cached(ATTACK, rows)
        self.cached += rows

    @rule(which=st.integers(0, 1), data=st.data())
    def lose(self, which: int, data: st.DataObject) -> None:
        asks = data.draw(st.lists(st.sampled_from(self.asks))) if self.asks else []
        self.ledgers[which].note_unconfirmed([ask for ask, _, _ in asks])
        self.lost |= {ask for ask, _, _ in asks}

    @rule(which=st.integers(0, 1), sizes=st.lists(st.integers(-5, 5), max_size=3))
    def nonsense(self, which: int, sizes: list[int]) -> None:
        if not sizes or min(sizes) < 1:
            with pytest.raises(UsageError, match="at least one row"):
                self.ledgers[which].reserve(ATTACK, sizes)

    @rule(which=st.integers(0, 1))
    def reopen(self, which: int) -> None:
        self.ledgers[which].close()
        self.ledgers[which] = Ledger(self.path, budget=self.BUDGET)

    @invariant()
    def both_agree_with_the_sums(self) -> None:
        for ledger in self.ledgers:
            for account in (ATTACK, EVALUATION):
                lost = sum(rows for ask, owner, rows in self.asks if owner == account and ask in self.lost)
                explained = self.explained[account]
                cached = self.cached if account == ATTACK else 0
                assert ledger.entry(account) == Entry(self.queries[account], explained, 3 * explained, cached, lost)
            assert ledger.remaining == self.BUDGET - self.queries[ATTACK] >= 0
            assert ledger.asks() == self.asks

    def teardown(self) -> None:
        for ledger in self.ledgers:
            ledger.close()
        self.folder.cleanup()


TestAccountant = Accountant.TestCase
TestAccountant.settings = settings(max_examples=15, stateful_step_count=20)


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(budget=st.integers(0, 400), batch=st.integers(1, 13))
def test_eight_threads_never_pass_the_budget(counter, victim, budget: int, batch: int) -> None:
    counter.calls.clear()
    oracle = Oracle(victim, budget=budget)
    served: list[int] = []
    refused: list[int] = []

    def hammer(seed: int) -> None:
        draws = torch.Generator().manual_seed(seed)
        try:
            while True:
                x = torch.rand(int(torch.randint(1, batch + 1, (), generator=draws)), 4, generator=draws)
                served.append(len(oracle.query(x)))
        except BudgetExhausted as error:
            refused.append(error.remaining)

    threads = [threading.Thread(target=hammer, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert oracle.ledger.spent() == counter.rows == sum(served) <= budget
    assert len(refused) == 8
    assert max(refused) < batch


def test_the_victim_computes_nothing_once_the_budget_is_spent(door, counter) -> None:
    oracle = door(budget=20)
    oracle.query(torch.rand(15, 4))
    with pytest.raises(BudgetExhausted, match="5 queries left and 6 were asked; ask for at most 5") as caught:
        oracle.query(torch.rand(6, 4))
    assert (counter.rows, caught.value.remaining) == (15, 5)
    oracle.query(torch.rand(5, 4))
    assert (counter.rows, oracle.ledger.remaining) == (20, 0)
    assert len(oracle.judge(torch.rand(7, 4))) == 7, "the owner's own look is not the attack's"
    assert (oracle.ledger.spent(ATTACK), oracle.ledger.spent(EVALUATION)) == (20, 7)


PROCESS = """
import sys
from pathlib import Path
from leakmeter.errors import BudgetExhausted
from leakmeter.oracle.ledger import Ledger
ledger, got = Ledger(Path(sys.argv[1]), budget=3000), 0
try:
    while True:
        got += 7 * len(ledger.reserve("attack", [7]))
except BudgetExhausted:
    print(got)
"""


def test_processes_share_one_budget_from_the_first_moment_on(tmp_path) -> None:
    path = tmp_path / "ledger.sqlite"
    command = [sys.executable, "-c", PROCESS, str(path)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    got = [int(process.communicate(timeout=60)[0]) for process in processes]
    assert sum(got) == 3000 // 7 * 7 == Ledger(path, budget=3000).spent()


def test_another_budget_is_refused(tmp_path) -> None:
    Ledger(tmp_path / "l", budget=10).close()
    with pytest.raises(UsageError, match=r"opened with \(10\), got 20"):
        Ledger(tmp_path / "l", budget=20)
    with pytest.raises(UsageError, match="at least 0"):
        Ledger(budget=-1)


def test_unknown_accounts_are_refused() -> None:
    ledger = Ledger(budget=5)
    for call in (lambda: ledger.entry("mine"), lambda: ledger.reserve("mine", [1])):
        with pytest.raises(UsageError, match="expected the account attack or evaluation, got 'mine'"):
            call()


def test_prices() -> None:
    ledger = Ledger()
    ledger.reserve(ATTACK, [5, 5], explanations=4, work=40)
    assert Prices(query=0.5, explanation=2.0).cost(ledger.entry(ATTACK)) == 0.5 * 10 + 2.0 * 4


def spent_ledger(path: Path, asks: int = 400) -> None:
    ledger = Ledger(path)
    for _ in range(asks):
        ledger.reserve(ATTACK, [3])
    ledger.close()


@pytest.mark.parametrize("damage", ["garbage", "truncated", "page", "total", "version", "foreign"])
def test_a_damaged_ledger_is_named_and_left_alone(tmp_path, damage: str) -> None:
    path = tmp_path / "ledger.sqlite"
    spent_ledger(path)
    content = bytearray(path.read_bytes())
    if damage == "garbage":
        content = bytearray(b"not a database at all " * 200)
    elif damage == "truncated":
        del content[len(content) // 2 :]
    elif damage == "page":
        content[4096 * 2 : 4096 * 3] = bytes(4096)
    path.write_bytes(content)
    if damage in ("total", "version", "foreign"):
        with sqlite3.connect(path) as db:
            db.execute("UPDATE accounts SET queries = queries - 1" if damage == "total" else "PRAGMA user_version = 9")
            if damage == "foreign":
                db.execute("PRAGMA user_version = 0")
        db.close()
    before = path.read_bytes()
    with pytest.raises(Inconclusive) as caught:
        Ledger(path)
    assert caught.value.exit_code == 4
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == before


@contextmanager
def unprivileged() -> Iterator[None]:
    """Root may write anywhere: become somebody else for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def read_only() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(stat.S_IRUSR | stat.S_IXUSR | stat.S_IROTH | stat.S_IXOTH)
        yield folder
        folder.chmod(stat.S_IRWXU)


def test_a_read_only_folder_is_one_sentence(read_only: Path) -> None:
    with unprivileged(), pytest.raises(UsageError, match=r"cannot write the ledger .*; free space or choose another"):
        Ledger(read_only / "ledger.sqlite")


def test_a_full_disk_spends_nothing_and_the_ledger_goes_on_when_there_is_space(tmp_path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite", budget=10**6)
    pages = ledger._db.execute("PRAGMA page_count").fetchone()[0]
    ledger._db.execute(f"PRAGMA max_page_count = {pages + 1}")
    accepted = 0

    def fill() -> None:
        nonlocal accepted
        while True:
            ledger.reserve(ATTACK, [1] * 50)
            accepted += 50

    with pytest.raises(UsageError, match="is full; free space"):
        fill()
    assert ledger.spent() == accepted == sum(rows for _, _, rows in ledger.asks())
    ledger._db.execute("PRAGMA max_page_count = 1000000")
    ledger.reserve(ATTACK, [1])
    assert ledger.spent() == accepted + 1


def test_nothing_costs_anything_unless_a_price_is_said() -> None:
    assert Prices().cost(Entry(10, 4, 40, 0, 0)) == 0
    assert Prices(query=0.5).cost(Entry(10, 4, 40, 0, 0)) == 5
    assert Prices(explanation=2.0).cost(Entry(10, 4, 40, 0, 0)) == 8


def test_what_a_dead_process_took_is_entered_once_and_as_never_heard(tmp_path) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = Ledger(path, budget=50)
    ledger.reserve(ATTACK, [3, 4])
    for rows, queries in ((7, 7), (5, 7), (8, 8), (20, 20), (20, 20)):
        ledger.catch_up(ATTACK, rows)
        assert ledger.entry(ATTACK) == Entry(queries, 0, 0, 0, queries - 7)
        assert ledger.entry(EVALUATION) == Entry(0, 0, 0, 0, 0)
    assert [rows for _, _, rows in ledger.asks()] == [3, 4, 1, 12]
    ledger.close()
    assert Ledger(path, budget=50).spent() == 20  # its seals and sums still fit


def test_rows_are_taken_from_a_shared_limit_last_and_a_refusal_enters_nothing() -> None:
    taken: list[tuple[str, int]] = []

    def take(account: str, rows: int) -> None:
        if sum(rows for _, rows in taken) + rows > 10:
            raise BudgetExhausted(rows, 0)
        taken.append((account, rows))

    ledger = Ledger(budget=100, take=take)
    ledger.reserve(ATTACK, [2, 3])
    ledger.reserve(EVALUATION, [4])
    with pytest.raises(BudgetExhausted):
        ledger.reserve(ATTACK, [2])
    with pytest.raises(BudgetExhausted):
        ledger.reserve(ATTACK, [96])  # its own budget refuses before the shared one is asked
    assert taken == [(ATTACK, 5), (EVALUATION, 4)]
    assert (ledger.spent(ATTACK), ledger.spent(EVALUATION), len(ledger.asks())) == (5, 4, 3)


def test_what_a_question_does_not_say_is_not_explained() -> None:
    ledger = Ledger()
    assert (ledger.last, ledger.remaining) == (0, None)
    ids = ledger.reserve(ATTACK, [1, 1])
    assert ledger.entry(ATTACK) == Entry(2, 0, 0, 0, 0)
    assert ledger.last == ids[-1] == 2
    assert Ledger(budget=0).remaining == 0


def test_the_rows_of_a_file_are_read_whatever_its_budget(tmp_path) -> None:
    path = tmp_path / "ledger.sqlite"
    assert recorded(path) == {}
    path.touch()
    assert recorded(path) == {}
    for budget in (None, 0, 9):
        place = tmp_path / f"{budget}.sqlite"
        ledger = Ledger(place, budget=budget)
        if budget != 0:
            ledger.reserve(ATTACK, [4, 5])
        ledger.reserve(EVALUATION, [3])
        ledger.close()
        assert recorded(place) == {ATTACK: 0 if budget == 0 else 9, EVALUATION: 3}
    path.write_bytes(b"no database " * 100)
    with pytest.raises(Inconclusive, match="is damaged"):
        recorded(path)


SECOND = """
CREATE TABLE accounts (
    name TEXT PRIMARY KEY, budget INTEGER, queries INTEGER NOT NULL DEFAULT 0, explanations INTEGER NOT NULL DEFAULT 0,
    work INTEGER NOT NULL DEFAULT 0, cached INTEGER NOT NULL DEFAULT 0, seal TEXT);
CREATE TABLE asks (
    id INTEGER PRIMARY KEY, account TEXT NOT NULL, queries INTEGER NOT NULL, at REAL NOT NULL,
    unconfirmed INTEGER NOT NULL DEFAULT 0);
INSERT INTO accounts VALUES
    ('attack', 20, 7, 4, 8, 2, '1edb5d3a0ceaad90'), ('evaluation', NULL, 0, 0, 0, 0, '5e27bbd13ec12966');
INSERT INTO asks VALUES (1, 'attack', 7, 0.0, 1);
PRAGMA user_version = 2;
"""


def second_version(path: Path, script: str = SECOND) -> None:
    with sqlite3.connect(path) as db:
        db.executescript(script)
    db.close()


def test_a_ledger_of_version_two_is_read_for_ever(tmp_path) -> None:
    """Run folders outlive the code that wrote them: the file as it was, seals and all."""
    second_version(tmp_path / "l")
    ledger = Ledger(tmp_path / "l", budget=20)
    assert ledger.entry(ATTACK) == Entry(7, 4, 8, 2, 7)
    assert ledger.remaining == 13


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("UPDATE accounts SET budget = 2000 WHERE name = 'attack';", "seals do not fit"),
        ("UPDATE accounts SET cached = 3 WHERE name = 'attack';", "seals do not fit"),
        ("UPDATE accounts SET work = 1 WHERE name = 'evaluation';", "seals do not fit"),
        ("UPDATE asks SET queries = 6;", "not the sums"),
        ("DELETE FROM asks;", "not the sums"),
        ("DELETE FROM accounts WHERE name = 'evaluation';", "lost an account"),
        ("DROP TABLE asks; DROP TABLE accounts; PRAGMA user_version = 0;", "lost its tables"),
        ("PRAGMA user_version = 1;", "expected a ledger of version 2, got version 1"),
        ("PRAGMA user_version = 3;", "expected a ledger of version 2, got version 3"),
    ],
)
def test_any_number_that_was_changed_is_noticed(tmp_path, change: str, told: str) -> None:
    second_version(tmp_path / "l", SECOND + change)
    with pytest.raises(Inconclusive, match=told):
        Ledger(tmp_path / "l", budget=20)
