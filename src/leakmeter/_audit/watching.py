"""What every running cell is doing, told while it runs: the ledgers in their folders say how far they are."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from leakmeter.oracle.ledger import ATTACK
from leakmeter.progress import Progress

_PARTING = 2.0  # seconds that a line under way may take
_FIRST, _LONGEST, _GROWTH = 2.0, 120.0, 1.6  # seconds between looks: soon at first, then less and less often


@contextmanager
def watching(
    progress: Progress, folder: Path, running: Callable[[], list[str]], budget: int, first: float = _FIRST
) -> Iterator[None]:
    """Tells of running cells now and then for the length of a `with` block.

    Args:
        progress: where lines go.
        folder: of the run.
        running: the cells that run now, by their folders within it.
        budget: the most queries of one.
        first: seconds to the first line.
    """
    stop, watch = threading.Event(), Watch(folder, budget)

    def look() -> None:
        wait = first
        while not stop.wait(wait):
            for line in watch.lines(running()):
                progress.say(line)
            wait = min(_LONGEST, wait * _GROWTH)

    thread = threading.Thread(target=look, name="leakmeter-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(_PARTING)


class Watch:
    """Remembers what each cell had asked when it was last looked at."""

    def __init__(self, folder: Path, budget: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder, self._budget, self._clock = folder, budget, clock
        self._seen: dict[str, tuple[float, int]] = {}

    def lines(self, cells: list[str]) -> list[str]:
        """One for each cell: phase, queries, and how fast they came since the line before."""
        return [self._line(cell, self._clock(), spent_in(self._folder / cell)) for cell in cells]

    def _line(self, cell: str, now: float, spent: int | None) -> str:
        before = self._seen.get(cell)
        if spent is None:
            return f"{cell}: starting"
        self._seen[cell] = now, spent
        of = f"{spent:,} of {self._budget:,} queries"
        if before is None:
            return f"{cell}: {of}"
        if spent == before[1]:
            return f"{cell}: learning, {of}"
        rate = (spent - before[1]) / max(now - before[0], 1e-9)
        return f"{cell}: asking, {of} ({rate:,.1f}/s since the last line)"


def spent_in(folder: Path) -> int | None:
    """The queries in a cell's ledger, read beside whoever writes it; None: there is none here yet."""
    path = folder / "ledger.sqlite"
    if not path.is_file():
        return None
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=1)) as ledger:
            row = ledger.execute("SELECT queries FROM accounts WHERE name = ?", (ATTACK,)).fetchone()
    except (sqlite3.Error, UnicodeDecodeError):
        return None
    return None if row is None else int(row[0])
