"""Limits that many workers share: how many queries in all, and when the next request may leave.

Each query is taken from here before it is sent, whoever sends it, and nothing is given back: what a worker took before
it died counts as asked. Slots in time are given out one after the other, never twice. One SQLite file, which processes
of one machine open together; a cluster reaches it through the one worker that has it (`executors/ray_worker.py`).

A job that is begun again leaves its earlier worker, should that still live, with nothing more to take.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from leakmeter.errors import BudgetExhausted, Inconclusive, UsageError
from leakmeter.victims.remote.pace import Abandoned

_SCHEMA = """
CREATE TABLE IF NOT EXISTS limits (only INTEGER PRIMARY KEY CHECK (only = 1), total INTEGER, taken INTEGER NOT NULL,
    interval REAL NOT NULL, next REAL NOT NULL, held REAL NOT NULL, pauses INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS attempts (job TEXT PRIMARY KEY, attempt INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS taken (job TEXT, account TEXT, rows INTEGER NOT NULL, PRIMARY KEY (job, account));
"""
_TAKEN = "INSERT INTO taken VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET rows = rows + excluded.rows"


class Superseded(Inconclusive):
    """Another worker has begun this job again; this one must ask no more."""


@dataclass(frozen=True)
class Slot:
    """A place in the queue of requests."""

    delay: float
    """Seconds until it comes."""
    pause: int
    """How many pauses had been asked for when it was given: a later one takes it away."""


class Limits(Protocol):
    """Where workers get their allowances, near or far; equal ones have the same limits."""

    def __hash__(self) -> int: ...

    def begin(self, job: str) -> int:
        """The number of this attempt at the job; earlier ones get nothing any more."""

    def take(self, job: str, attempt: int, account: str, rows: int) -> None:
        """Counts rows that are about to be asked, or raises BudgetExhausted: then they must not be.

        Args:
            job: whose rows they are.
            attempt: its number; any but the latest raises Superseded.
            account: on which account of the job's ledger they are entered.
            rows: how many.
        """

    def taken(self, job: str) -> dict[str, int]:
        """All rows that all attempts at the job took, by account."""

    def slot(self) -> Slot:
        """The next place in the queue of requests."""

    def stands(self, slot: Slot) -> bool:
        """Whether no pause has begun since the slot was given."""

    def hold(self, seconds: float) -> None:
        """Nothing leaves for that long: the victim asked for it."""


class Attempt:
    """One attempt at a job."""

    def __init__(self, limits: Limits, job: str) -> None:
        self._limits, self._job, self._attempt = limits, job, limits.begin(job)

    def take(self, account: str, rows: int) -> None:
        """Counts rows that are about to be asked, or raises BudgetExhausted: then they must not be."""
        self._limits.take(self._job, self._attempt, account, rows)

    def taken(self) -> dict[str, int]:
        """All that was ever taken for the job."""
        return self._limits.taken(self._job)


class SharedPace:
    """The pace of a remote victim that several workers ask: a request leaves when the limits have a slot for it.

    A slot is used at its time or, by as much as the limits are slow to answer, later; never before.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def wait(self, stop: threading.Event) -> None:
        """Returns when the next request may leave; a pause that begins meanwhile is kept, too."""
        while not stop.is_set():
            slot = self._limits.slot()
            if slot.delay <= 0:
                return
            stop.wait(slot.delay)
            if not stop.is_set() and self._limits.stands(slot):
                return
        raise Abandoned

    def hold(self, seconds: float) -> None:
        """Nothing leaves for that long, from any worker."""
        self._limits.hold(seconds)


class LimitsFile:
    """The file. Opened with limits it sets them, keeping all counts; without, it takes those it finds.

    Args:
        path: where.
        total: the most queries of all jobs together; None: no limit.
        rps: the most requests a second; None: no limit.
        clock: seconds, the same for all processes of this machine.
    """

    def __init__(
        self,
        path: Path,
        *,
        total: int | None = None,
        rps: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open(path, clock)
        with self._readable():
            self._db.executescript(_SCHEMA)
        interval = 1 / rps if rps else 0.0
        with self._transaction() as db:
            db.execute("INSERT OR IGNORE INTO limits VALUES (1, NULL, 0, 0, 0, 0, 0)")
            # From now: whoever asked before may have done so a moment ago. (The clock restarts with the machine.)
            update = "UPDATE limits SET total = ?, interval = ?, next = ?, held = 0"
            db.execute(update, (total, interval, clock() + interval))
            # Counts err upwards only: of two that should be the same, the higher is believed.
            db.execute("UPDATE taken SET rows = MAX(0, rows)")
            db.execute("UPDATE limits SET taken = MAX(taken, (SELECT COALESCE(SUM(rows), 0) FROM taken))")

    @classmethod
    def join(cls, path: Path, clock: Callable[[], float] = time.monotonic) -> LimitsFile:
        """The limits another process set."""
        if not path.exists():
            raise UsageError(f"there is no file of shared limits {path}")
        limits = cls.__new__(cls)
        limits._open(path, clock)
        return limits

    def begin(self, job: str) -> int:
        """The number of this attempt at the job; earlier ones get nothing any more."""
        with self._transaction() as db:
            row = db.execute(
                "INSERT INTO attempts VALUES (?, 1) ON CONFLICT DO UPDATE SET attempt = attempt + 1 RETURNING attempt",
                (job,),
            ).fetchone()
        return int(row[0])

    def take(self, job: str, attempt: int, account: str, rows: int) -> None:
        """Counts rows that are about to be asked, or raises BudgetExhausted: then they must not be."""
        with self._transaction() as db:
            latest = db.execute("SELECT attempt FROM attempts WHERE job = ?", (job,)).fetchone()
            if latest is None or latest[0] != attempt:
                raise Superseded(f"another worker has begun {job} again; this one stops")
            update = "UPDATE limits SET taken = taken + ?1 WHERE total IS NULL OR taken + ?1 <= total"
            if db.execute(update, (rows,)).rowcount == 0:
                left = db.execute("SELECT MAX(0, total - taken) FROM limits").fetchone()[0]
                raise BudgetExhausted(rows, left)
            db.execute(_TAKEN, (job, account, rows))

    def taken(self, job: str) -> dict[str, int]:
        """All rows that all attempts at the job took, by account."""
        with self._lock, self._readable():
            return dict(self._db.execute("SELECT account, rows FROM taken WHERE job = ?", (job,)).fetchall())

    def catch_up(self, job: str, account: str, rows: int) -> None:
        """Counts what is missing to `rows`, which the job's own ledger holds: this file has lost something."""
        with self._transaction() as db:
            known = db.execute("SELECT rows FROM taken WHERE job = ? AND account = ?", (job, account)).fetchone()
            lost = rows - (known[0] if known else 0)
            if lost > 0:
                db.execute(_TAKEN, (job, account, lost))
                db.execute("UPDATE limits SET taken = taken + ?", (lost,))

    def slot(self) -> Slot:
        """The next place in the queue of requests."""
        with self._transaction() as db:
            after, interval, pauses = db.execute("SELECT next, interval, pauses FROM limits").fetchone()
            now = self._clock()
            start = max(now, after)
            db.execute("UPDATE limits SET next = ?", (start + interval,))
        return Slot(start - now, pauses)

    def stands(self, slot: Slot) -> bool:
        """Whether no pause has begun since the slot was given."""
        with self._lock, self._readable():
            return bool(self._db.execute("SELECT pauses FROM limits").fetchone()[0] == slot.pause)

    def hold(self, seconds: float) -> None:
        """Nothing leaves for that long: the victim asked for it."""
        with self._transaction() as db:
            # The queue begins anew, after the longest pause asked for: those who were in it come back for another slot.
            now = self._clock()
            db.execute("UPDATE limits SET held = MAX(held, ?), pauses = pauses + 1", (now + seconds,))
            db.execute("UPDATE limits SET next = MAX(held, ? + interval)", (now,))

    def close(self) -> None:
        """Lets go of the file."""
        self._db.close()

    def _open(self, path: Path, clock: Callable[[], float]) -> None:
        self._path, self._clock, self._lock = path, clock, threading.Lock()
        try:
            self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=60)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            found = self._db.execute("PRAGMA quick_check(1)").fetchone()[0]
        except sqlite3.OperationalError as error:
            raise UsageError(
                f"cannot write the shared limits {path}: {error}; free space or choose another --out"
            ) from error
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # sqlite quotes the damage as it is
            raise self._damaged(error) from error
        if found != "ok":
            raise self._damaged(found)

    def _damaged(self, how: object) -> Inconclusive:
        return Inconclusive(
            f"the shared limits {self._path} are damaged ({how}); delete the file: what was asked is counted again "
            "from the ledgers of the cells"
        )

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise UsageError(f"cannot write the shared limits {self._path}: {error}; free space") from error
        except (sqlite3.DatabaseError, UnicodeDecodeError, TypeError) as error:  # TypeError: a row or a number is gone
            raise self._damaged(error) from error

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._readable():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
