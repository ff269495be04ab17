"""A run directory: everything an attack needs to survive a kill, and everything a reader needs afterwards."""

from __future__ import annotations

import fcntl
import json
import platform
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import tomli_w

from leakmeter import __version__
from leakmeter.checkpoint import DiskCheckpoint
from leakmeter.errors import Inconclusive, UsageError
from leakmeter.files import has_content, write_atomic, writing
from leakmeter.oracle.ledger import Ledger
from leakmeter.oracle.limits import Attempt
from leakmeter.oracle.log import AnswerLog
from leakmeter.shown import shown

Plan = dict[str, Any]
LEDGER = "ledger.sqlite"


class Run:
    """`plan.toml`, `env.json`, `ledger.sqlite`, `answers/`, `checkpoint/`, `results.json`, `log.txt` in one folder."""

    def __init__(self, path: Path, plan: Plan) -> None:
        self.path, self.plan = path, plan

    @classmethod
    def enter(cls, path: Path, plan: Plan) -> Run:
        """Makes the folder, or goes on in one made for the same plan."""
        if (path / "plan.toml").exists():
            return cls.resume(path, plan)
        with writing(path):
            path.mkdir(parents=True, exist_ok=True)
            write_atomic(path / "env.json", json.dumps(environment(), indent=2).encode())
            write_atomic(path / "plan.toml", tomli_w.dumps(without_none(plan)).encode())
        return cls(path, plan)

    @classmethod
    def open(cls, path: Path) -> Run:
        """An existing folder, with the plan it was made for."""
        try:
            plan = tomllib.loads((path / "plan.toml").read_text())
        except FileNotFoundError as error:
            raise UsageError(f"{path} has no plan.toml, so nothing was asked there; start a new run") from error
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
            raise UsageError(f"cannot read the plan of {path}: {error}") from error
        return cls(path, plan)

    @classmethod
    def resume(cls, path: Path, plan: Plan) -> Run:
        """An existing folder, refused unless `plan` is the one it was made for."""
        run = cls.open(path)
        changes = differences(run.plan, without_none(plan))
        if changes:
            raise UsageError(f"cannot resume {path} with another plan: {'; '.join(changes)}; start a new run instead")
        return run

    def ledger(self, budget: int | None, lease: Attempt | None = None) -> Ledger:
        """The ledger of this run. Whatever was leased for it is in it, also what a dead worker left no record of."""
        path = self.path / LEDGER
        if not has_content(path) and (left := self._asked_before()):
            raise Inconclusive(
                f"{left} holds answers of the victim, and {path}, which counted them, is gone; restore it or start a "
                "new run"
            )
        ledger = Ledger(path, budget=budget, take=None if lease is None else lease.take)
        for account, rows in ({} if lease is None else lease.taken()).items():
            ledger.catch_up(account, rows)
        return ledger

    def _asked_before(self) -> Path | None:
        """What only a run that has asked its victim leaves."""
        traces = [self.path / "answers" / "answers.bin", *sorted((self.path / "checkpoint").glob("*.pt"))]
        return next(filter(has_content, traces), None)

    def answers(self) -> AnswerLog:
        """The replay log of this run."""
        return AnswerLog(self.path / "answers")

    def checkpoint(self, name: str) -> DiskCheckpoint:
        """The state called `name`."""
        return DiskCheckpoint(self.path / "checkpoint" / f"{name}.pt")

    def say(self, line: str) -> None:
        """Adds a line, with the time, to `log.txt`."""
        with writing(self.path), (self.path / "log.txt").open("a") as log:
            log.write(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {shown(line)}\n")

    @contextmanager
    def held(self, patience: float = 0.0) -> Iterator[None]:
        """Keeps other processes out of this folder for the length of a `with` block.

        A process that holds it already is waited for as long as `patience` says: one that dies on another machine
        keeps a lock on a network folder until the server notices.
        """
        with writing(self.path):
            lock = (self.path / "lock").open("w")
        end = time.monotonic() + patience
        with lock:
            while not locks(lock):
                if time.monotonic() >= end:
                    raise UsageError(f"another process is working in {self.path}; wait for it or stop it")
                time.sleep(0.2)
            yield


def is_held(path: Path) -> bool:
    """Whether a process holds this folder. If one on another machine does, both see one folder, and its locks work."""
    try:
        with (path / "lock").open("r+") as lock:
            return not locks(lock)
    except OSError:
        return False


def locks(file: IO[str]) -> bool:
    """Whether this process now holds the file; False: another does."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def fresh_path(out: Path, name: str) -> Path:
    """A folder name under `out` that does not exist yet: the time in UTC, then the name."""
    stem = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{''.join(c if c.isalnum() or c in '-_.' else '-' for c in name)}"
    path, more = out / stem, 1
    while path.exists():
        more += 1
        path = out / f"{stem}-{more}"
    return path


def environment() -> dict[str, Any]:
    """What the numbers may depend on."""
    import numpy
    import scipy
    import torch

    return {
        "leakmeter": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "threads": torch.get_num_threads(),
        "machine": platform.machine(),
        "system": platform.system(),
    }


def differences(old: Plan, new: Plan, prefix: str = "") -> list[str]:
    """What changed between two plans, one phrase a key."""
    changes = []
    for key in sorted({*old, *new}):
        before, after, name = old.get(key), new.get(key), f"{prefix}{key}"
        if isinstance(before, dict) and isinstance(after, dict):
            changes += differences(before, after, f"{name}.")
        elif before != after:
            changes.append(f"{name} was {before!r} and is now {after!r}")
    return changes


def without_none(value: Any) -> Any:
    """TOML has no null: an absent key says the same."""
    if isinstance(value, dict):
        return {key: without_none(item) for key, item in value.items() if item is not None}
    return [without_none(item) for item in value] if isinstance(value, list | tuple) else value
