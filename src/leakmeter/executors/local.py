"""Cells in processes of this machine. A process that dies costs its cell only the work since the last checkpoint."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

from leakmeter.plan import Cell, Plan
from leakmeter.results import CellResult
from leakmeter.worker import failed, work

_TRIES = 3


class LocalExecutor:
    """A pool of processes, by default one for each core."""

    def __init__(self, jobs: int | None = None) -> None:
        self.jobs = jobs or len(os.sched_getaffinity(0))

    def run(self, plan: Plan, cells: Sequence[Cell], folder: Path, done: Callable[[CellResult], None]) -> None:
        """Runs the cells; those caught in a dying pool go on in a new one, a few times."""
        left = {cell.id: cell for cell in cells}
        for attempt in range(1, _TRIES + 1):
            try:
                self._run_once(plan, left, folder, done)
            except BrokenProcessPool:
                if attempt < _TRIES:
                    continue
            break
        for cell in left.values():
            done(failed(cell, f"its process died {_TRIES} times"))

    def _run_once(self, plan: Plan, left: dict[str, Cell], folder: Path, done: Callable[[CellResult], None]) -> None:
        content = plan.model_dump_json()
        # Spawned, not forked: torch's threads do not survive a fork.
        pool = ProcessPoolExecutor(
            min(self.jobs, len(left)),
            mp_context=get_context("spawn"),
            initializer=_end_with_parent,
            initargs=(os.getpid(),),
        )
        try:
            waiting: dict[Future[str], str] = {
                pool.submit(work, content, cell.model_dump_json(), str(folder)): cell.id for cell in left.values()
            }
            for future in as_completed(waiting):
                result = CellResult.model_validate_json(future.result())
                del left[waiting[future]]
                done(result)
        finally:
            pool.shutdown(cancel_futures=True)


def _end_with_parent(parent: int) -> None:
    """A killed driver must not leave workers behind that hold its cells: whoever resumes would find them locked."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
