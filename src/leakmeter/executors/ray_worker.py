"""The far side of a Ray cluster: what a worker does with a job, and how it asks for limits that all workers share."""

from __future__ import annotations

import socket
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from leakmeter.errors import VictimError
from leakmeter.executors.job import Batch, Job, kept_worker, perform
from leakmeter.oracle.limits import Limits, LimitsFile, Slot
from leakmeter.patience import overdue
from leakmeter.runs.run import is_held
from leakmeter.runs.transport import Piece, ReplacedFolder, snapshot

SECONDS_BETWEEN_SNAPSHOTS = 30.0
SECONDS_BETWEEN_BEATS = 5.0


@dataclass(frozen=True)
class Started:
    """A worker has the job."""

    where: str


@dataclass(frozen=True)
class FolderSent:
    """The pieces since the last such message are the job's folder, complete."""


@dataclass(frozen=True)
class Ended:
    """The job is done."""

    text: str


@dataclass(frozen=True)
class Alive:
    """A sign of life."""


Message = Started | Alive | Piece | FolderSent | Ended


def run_job(
    batch: Batch, job: Job, limits: Limits | None, needs: Iterable[Piece], left: Iterable[Piece]
) -> Iterator[Message]:
    """Works in the batch's folder if this machine sees it; else in one of its own, whose content it sends.

    Args:
        batch: what all jobs share.
        job: the one to do.
        limits: where to ask before asking a victim whose limits are shared.
        needs: the files that every job reads.
        left: what an earlier attempt left in the job's folder.
    """
    yield Started(socket.gethostname())

    def work(folder: Path) -> str:
        return perform(kept_worker(batch, lambda: limits), job, folder)

    if is_held(batch.folder):
        with _thread() as thread:
            working = thread.submit(work, batch.folder)
            while wait([working], SECONDS_BETWEEN_BEATS).not_done:
                _check_overdue()
                yield Alive()
            yield Ended(working.result())
        return
    with tempfile.TemporaryDirectory(prefix="leakmeter-") as name, _thread() as thread:
        folder = Path(name) / "folder"
        own = folder / job.place
        _unpack(needs, folder)
        _unpack(left, own)
        working, due = thread.submit(work, folder), time.monotonic() + SECONDS_BETWEEN_SNAPSHOTS
        while wait([working], min(SECONDS_BETWEEN_BEATS, SECONDS_BETWEEN_SNAPSHOTS)).not_done:
            _check_overdue()
            yield Alive()
            start = time.monotonic()
            if start < due:
                continue
            yield from _send(own)
            end = time.monotonic()
            due = end + max(SECONDS_BETWEEN_SNAPSHOTS, 10 * (end - start))
        yield from _send(own)  # also of a job that failed: what it paid for must not be lost
        yield Ended(working.result())


@contextmanager
def _thread() -> Iterator[ThreadPoolExecutor]:
    """A thread that is not waited for when the block fails: it may never end."""
    thread = ThreadPoolExecutor(1)
    try:
        yield thread
    finally:
        thread.shutdown(wait=False)


def _check_overdue() -> None:
    if (late := overdue()) is not None:
        raise VictimError(late)


def _send(folder: Path) -> Iterator[Message]:
    sent = False
    for piece in snapshot(folder):
        sent = True
        yield piece
    if sent:
        yield FolderSent()


def _unpack(pieces: Iterable[Piece], folder: Path) -> None:
    replaced = None
    for piece in pieces:
        replaced = replaced or ReplacedFolder(folder)
        replaced.add(piece)
    if replaced is not None:
        replaced.finish()


class _LeasesActor(LimitsFile):
    """One on the driver's machine has the file, every worker asks it.

    Should it die, it is started again with all that was taken on file, and the call is made once more: that can count a
    question twice, but never leave one out.
    """

    def __init__(self, path: Path) -> None:
        self._open(path, time.monotonic)


class RayLimits:
    """What a worker holds: the questions of `LimitsFile`, asked of the actor."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def begin(self, job: str) -> int:
        """The number of this attempt at the job; earlier ones get nothing any more."""
        return int(self._ask("begin", job))

    def take(self, job: str, attempt: int, account: str, rows: int) -> None:
        """Counts rows that are about to be asked, or raises BudgetExhausted: then they must not be."""
        self._ask("take", job, attempt, account, rows)

    def taken(self, job: str) -> dict[str, int]:
        """All rows that all attempts at the job took, by account."""
        return dict(self._ask("taken", job))

    def slot(self) -> Slot:
        """The next place in the queue of requests."""
        slot: Slot = self._ask("slot")
        return slot

    def stands(self, slot: Slot) -> bool:
        """Whether no pause has begun since the slot was given."""
        return bool(self._ask("stands", slot))

    def hold(self, seconds: float) -> None:
        """Nothing leaves for that long: the victim asked for it."""
        self._ask("hold", seconds)

    def _ask(self, method: str, *args: object) -> Any:
        try:
            # Not `ray.get`: a task that waits in it lends its CPUs to others, and has to share them afterwards.
            return getattr(self._actor, method).remote(*args).future().result()
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None


def share_limits(path: Path) -> RayLimits:
    """Starts the actor here, where the file is; it ends with whoever holds the last handle."""
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    options = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1, "scheduling_strategy": here}
    return RayLimits(ray.remote(_LeasesActor).options(**options).remote(path))
