"""What executors run: jobs of text in and text out, each with a folder of its own that outlives whoever works in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from leakmeter.errors import LeakmeterError, VictimError, first_line
from leakmeter.oracle.limits import Limits, LimitsFile
from leakmeter.patience import PATIENCE

TRIES = 5
"""How often a job is begun before it is given up: a worker that dies takes only its job with it, and only for now."""


@dataclass(frozen=True)
class Job:
    """One piece of work."""

    place: str
    """Its folder within that of the batch; also its name."""
    text: str


class Worker(Protocol):
    """Does jobs of one batch, one after the other, with what it opened for the first of them."""

    def run(self, text: str, folder: Path) -> str:
        """From a job's text to its result.

        Args:
            text: the job's own.
            folder: the batch's, or one that stands for it: the job's own folder lies in it, and the files it needs.
        """


@dataclass(frozen=True)
class Batch:
    """What all jobs have in common."""

    make_worker: Callable[[Limits | None], Worker]
    """Opens what jobs need, once in each process; sent to another process it is pickled. It is given whom to ask before
    asking a victim whose limits all jobs share."""
    folder: Path
    """Held by this process (`Run.held`): that is how a worker elsewhere knows whether it sees the same folder."""
    needs: tuple[str, ...] = ()
    """Files in `folder` that every job reads."""
    cpus: int = 1
    """What each job computes with."""
    gpus: int = 0
    at_once: int | None = None
    """The most jobs under way; None: as many as there is room for."""
    leases: Path | None = None
    """The file of the limits that all jobs share (`oracle/limits.py`)."""
    patience: float = PATIENCE
    """Seconds that a worker may give no sign of life."""
    key: str = field(default_factory=lambda: uuid4().hex)
    """By which a process knows that its worker is this batch's."""

    def limits(self) -> LimitsFile | None:
        """The limits that all jobs share, if there are any; for the caller to close."""
        return None if self.leases is None else LimitsFile.join(self.leases)


class Watch(Protocol):
    """Is told what becomes of each job; always from the thread that runs the batch."""

    def started(self, job: Job, where: str) -> None:
        """A worker has it."""

    def interrupted(self, job: Job, why: str) -> None:
        """Its worker died; it will go on elsewhere."""

    def ended(self, job: Job, text: str) -> None:
        """It is done."""

    def failed(self, job: Job, why: str) -> None:
        """It will never be done."""


class Executor(Protocol):
    """Somewhere to run jobs. What they return does not depend on where."""

    def run(self, batch: Batch, jobs: Iterable[Job], watch: Watch) -> None:
        """Runs every job, in any order, holding few of them in memory; each is `ended` or `failed` exactly once.

        Raises:
            UsageError: what a job raised that the caller can mend, such as a model that cannot be loaded.
        """


_kept: dict[str, Worker] = {}
"""The worker of this process, where processes do nothing but jobs; at most one, under its batch's key."""


def kept_worker(batch: Batch, limits: Callable[[], Limits | None]) -> Worker:
    """The worker of this process: made for the first job of a batch, kept for the others."""
    if batch.key not in _kept:
        _kept.clear()
        _kept[batch.key] = batch.make_worker(limits())
    return _kept[batch.key]


def perform(worker: Worker, job: Job, folder: Path) -> str:
    """Does one job. What tries to end the process, as a victim's code may, ends no more than the job."""
    try:
        return worker.run(job.text, folder)
    except (SystemExit, GeneratorExit) as error:
        raise VictimError(f"it was ended from within by {type(error).__name__}; look into the victim's code") from error


def why(error: BaseException) -> str:
    """Why a job failed, in a sentence: what was raised on purpose says it itself."""
    return str(error) if isinstance(error, LeakmeterError) else f"{type(error).__name__}: {first_line(error)}"
