"""Where cells run: each executor takes the same work and gives the same results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from leakmeter.errors import UsageError
from leakmeter.plan import Cell, Plan
from leakmeter.results import CellResult


class Executor(Protocol):
    """Runs every cell once, in any order and any place that shares `folder`."""

    def run(self, plan: Plan, cells: Sequence[Cell], folder: Path, done: Callable[[CellResult], None]) -> None:
        """Calls `done` with each result as it comes; a cell that cannot finish comes back as failed."""


def make_executor(text: str) -> Executor:
    """`local` (one process a core) or `local:N`."""
    kind, _, number = text.partition(":")
    if kind != "local" or (number and not (number.isdecimal() and int(number) > 0)):
        raise UsageError(f"expected --executor local or local:N, got '{text}'")
    from leakmeter.executors.local import LocalExecutor

    return LocalExecutor(int(number) if number else None)
