"""The accountant: every row asked is entered here before the victim computes, and nothing is ever struck out.

One SQLite file a run. The budget is part of the UPDATE that spends it, so no thread or process can pass it. A row that
was entered but whose answer never reached the log stays counted: it may have been answered. Every account carries a
seal over its numbers, and its total must be the sum of its pieces: a file that a flipped byte changed is not believed.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from leakmeter.errors import BudgetExhausted, Inconclusive, UsageError
from leakmeter.files import has_content

ATTACK, EVALUATION = "attack", "evaluation"
_VERSION = 2
_NUMBERS = "SELECT name, budget, queries, explanations, work, cached FROM accounts"
_SCHEMA = """
CREATE TABLE accounts (
    name TEXT PRIMARY KEY, budget INTEGER, queries INTEGER NOT NULL DEFAULT 0, explanations INTEGER NOT NULL DEFAULT 0,
    work INTEGER NOT NULL DEFAULT 0, cached INTEGER NOT NULL DEFAULT 0, seal TEXT);
CREATE TABLE asks (
    id INTEGER PRIMARY KEY, account TEXT NOT NULL, queries INTEGER NOT NULL, at REAL NOT NULL,
    unconfirmed INTEGER NOT NULL DEFAULT 0);
"""


@dataclass(frozen=True)
class Entry:
    """The state of one account."""

    queries: int
    """Rows answered, explained or not; the budget counts these."""
    explanations: int
    """Of those, rows that came with an explanation."""
    work: int
    """Gradient computations, or calls of the victim, that the server made for the explanations."""
    cached: int
    """Rows served from the client's own cache: not queries."""
    unconfirmed: int
    """Of the queries, rows asked of a remote victim whose answer was never received."""


@dataclass(frozen=True)
class Prices:
    """What the API charges, in any currency."""

    query: float = 0.0
    explanation: float = 0.0

    def cost(self, entry: Entry) -> float:
        """What an account comes to."""
        return self.query * entry.queries + self.explanation * entry.explanations


class Ledger:
    """Counts queries by account and enforces the attack's budget. Without a path it lives in memory.

    Args:
        path: the file.
        budget: the most queries on the attack's account; None: no limit.
        take: takes each question's account and rows from limits shared with others (`Attempt.take`).
    """

    def __init__(
        self, path: Path | None = None, *, budget: int | None = None, take: Callable[[str, int], None] | None = None
    ) -> None:
        if budget is not None and budget < 0:
            raise UsageError(f"expected a budget of at least 0 queries, got {budget}")
        self.path, self.budget, self._take = path, budget, take
        self._lock = threading.Lock()
        self._begun = path is not None and has_content(path)
        with self._as_leakmeter_error():
            self._db = sqlite3.connect(path or ":memory:", check_same_thread=False, isolation_level=None, timeout=60)
            self._open()

    def reserve(self, account: str, sizes: list[int], *, explanations: int = 0, work: int = 0) -> list[int]:
        """Enters one question, all or nothing; returns an id for each piece.

        Args:
            account: who asks.
            sizes: the rows of each piece in which it is sent.
            explanations: how many of the rows are explained.
            work: what the server computes for the explanations.
        """
        rows = sum(sizes)
        if not sizes or min(sizes) < 1:
            raise UsageError(f"expected pieces of at least one row, got {sizes}")
        with self._transaction():
            spent = self._db.execute(
                "UPDATE accounts SET queries = queries + ?1, explanations = explanations + ?2, work = work + ?3 "
                "WHERE name = ?4 AND (budget IS NULL OR queries + ?1 <= budget)",
                (rows, explanations, work, account),
            )
            if spent.rowcount == 0:
                raise BudgetExhausted(rows, self._remaining(account))
            ids = self._enter(account, sizes)
            self._seal()
            if self._take is not None:  # last: what is taken from there cannot be given back
                self._take(account, rows)
        return ids

    def catch_up(self, account: str, rows: int) -> None:
        """Enters what is missing to `rows`: a process now dead took them, may have asked them, and left no record."""
        with self._transaction():
            lost = rows - self._db.execute("SELECT queries FROM accounts WHERE name = ?", (account,)).fetchone()[0]
            if lost > 0:
                self._db.execute("UPDATE accounts SET queries = queries + ? WHERE name = ?", (lost, account))
                ids = self._enter(account, [lost])
                self._db.execute("UPDATE asks SET unconfirmed = 1 WHERE id = ?", ids)
                self._seal()

    def note_cached(self, account: str, rows: int) -> None:
        """Rows that the client's cache answered."""
        with self._transaction():
            self._db.execute("UPDATE accounts SET cached = cached + ? WHERE name = ?", (rows, account))
            self._seal()

    def note_unconfirmed(self, asks: list[int]) -> None:
        """Marks pieces that were sent, and may have been answered, but brought nothing back; marking twice is once."""
        with self._transaction():
            self._db.executemany("UPDATE asks SET unconfirmed = 1 WHERE id = ?", [(ask,) for ask in asks])

    def entry(self, account: str) -> Entry:
        """Everything counted under one account."""
        with self._lock, self._as_leakmeter_error():
            row = self._db.execute(
                "SELECT queries, explanations, work, cached, (SELECT COALESCE(SUM(asks.queries), 0) FROM asks "
                "WHERE account = name AND unconfirmed) FROM accounts WHERE name = ?",
                (account,),
            ).fetchone()
        if row is None:
            raise UsageError(f"expected the account {ATTACK} or {EVALUATION}, got '{account}'")
        return Entry(*row)

    def spent(self, account: str = ATTACK) -> int:
        """Rows answered so far."""
        return self.entry(account).queries

    @property
    def remaining(self) -> int | None:
        """Rows the attack may still ask; None: no limit."""
        return None if self.budget is None else self.budget - self.spent(ATTACK)

    def asks(self) -> list[tuple[int, str, int]]:
        """Every piece entered, in order: id, account, rows."""
        with self._lock, self._as_leakmeter_error():
            return self._db.execute("SELECT id, account, queries FROM asks ORDER BY id").fetchall()

    @property
    def last(self) -> int:
        """The id of the last piece entered; 0: there is none."""
        with self._lock, self._as_leakmeter_error():
            return int(self._db.execute("SELECT COALESCE(MAX(id), 0) FROM asks").fetchone()[0])

    def close(self) -> None:
        """Lets go of the file."""
        self._db.close()

    def _open(self) -> None:
        self._db.execute("PRAGMA synchronous = NORMAL")  # in WAL mode sound through a power cut, too
        with self._exclusive():  # two processes may open a new file at once
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if version == 0 and self._db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0] == 0:
                if self._begun:
                    raise sqlite3.DatabaseError("it has lost its tables")
                self._create()
            elif version != _VERSION:
                raise Inconclusive(f"expected a ledger of version {_VERSION}, got version {version} in {self.path}")
            self._check_sums()
        self._db.execute("PRAGMA journal_mode = WAL")  # a killed process loses nothing
        stored = self._db.execute("SELECT budget FROM accounts WHERE name = ?", (ATTACK,)).fetchone()[0]
        if stored != self.budget:
            raise UsageError(f"expected the budget the ledger was opened with ({stored}), got {self.budget}")

    def _create(self) -> None:
        for statement in _SCHEMA.split(";"):
            self._db.execute(statement)
        self._db.execute(f"PRAGMA user_version = {_VERSION}")
        self._db.execute("INSERT INTO accounts (name, budget) VALUES (?, ?)", (ATTACK, self.budget))
        self._db.execute("INSERT INTO accounts (name) VALUES (?)", (EVALUATION,))
        self._seal()

    def _seal(self) -> None:
        """Within every transaction that changes an account, at its end."""
        for name, *numbers in self._db.execute(_NUMBERS).fetchall():
            self._db.execute("UPDATE accounts SET seal = ? WHERE name = ?", (_seal(name, numbers), name))

    def _check_sums(self) -> None:
        """Every total must be the sum of its pieces: a flipped byte is not always one that SQLite notices."""
        accounts = self._db.execute(_NUMBERS).fetchall()
        seals = dict(self._db.execute("SELECT name, seal FROM accounts").fetchall())
        if {name for name, *_ in accounts} != {ATTACK, EVALUATION}:
            raise sqlite3.DatabaseError("it has lost an account")
        if any(seals[name] != _seal(name, numbers) for name, *numbers in accounts):
            raise sqlite3.DatabaseError("its seals do not fit its numbers")
        totals = "SELECT name, queries FROM accounts WHERE queries > 0 ORDER BY name"
        pieces = "SELECT account, SUM(queries) FROM asks GROUP BY account ORDER BY account"
        if self._db.execute(totals).fetchall() != self._db.execute(pieces).fetchall():
            raise sqlite3.DatabaseError("its totals are not the sums of its pieces")

    def _enter(self, account: str, sizes: list[int]) -> list[int]:
        now = time.time()
        insert = "INSERT INTO asks (account, queries, at) VALUES (?, ?, ?)"
        ids = [self._db.execute(insert, (account, size, now)).lastrowid for size in sizes]
        return [int(i) for i in ids if i is not None]

    def _remaining(self, account: str) -> int:
        row = self._db.execute("SELECT budget - queries FROM accounts WHERE name = ?", (account,)).fetchone()
        if row is None:
            raise UsageError(f"expected the account {ATTACK} or {EVALUATION}, got '{account}'")
        return int(row[0])

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock, self._as_leakmeter_error(), self._exclusive():
            yield

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:  # SQLite itself rolls back when the disk is full
                self._db.execute("ROLLBACK")
            raise

    @contextmanager
    def _as_leakmeter_error(self) -> Iterator[None]:
        """Turns SQLite's complaints into a sentence."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise UsageError(
                f"cannot write the ledger {self.path}: {error}; free space or choose another --out"
            ) from error
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # sqlite quotes the damage as it is
            raise Inconclusive(
                f"the ledger {self.path} is damaged ({error}); it was left as it is: restore it or start a new run"
            ) from error


def _seal(name: str, numbers: Sequence[object]) -> str:
    return hashlib.sha256(repr((name, *numbers)).encode()).hexdigest()[:16]


def recorded(path: Path) -> dict[str, int]:
    """The rows counted by account in the ledger of a file, whatever its budget; none where there is no file."""
    if not has_content(path):
        return {}
    try:
        with closing(sqlite3.connect(path, timeout=60)) as db:
            budget = db.execute("SELECT budget FROM accounts WHERE name = ?", (ATTACK,)).fetchone()
    except (sqlite3.Error, UnicodeDecodeError):
        budget = None  # opening it says what is wrong
    with closing(Ledger(path, budget=budget and budget[0])) as ledger:
        return {account: ledger.spent(account) for account in (ATTACK, EVALUATION)}
