"""What executors run: jobs of text in and text out, each with a folder of its own that outlives whoever works in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from leakmeter.errors import LeakmeterError, first_line
from leakmeter.oracle.limits import Lessor

TRIES = 5
"""How often a job is begun before it is given up: a worker that dies takes only its job with it, and only for now."""


@dataclass(frozen=True)
class Job:
    """One piece of work."""

    place: str
    """Its folder within that of the batch; also its name."""
    text: str


@dataclass(frozen=True)
class Desk:
    """What a job finds where it runs."""

    folder: Path
    """The batch's folder, or a place that stands for it: the job's own folder lies in it, and the files it needs."""
    lessor: Lessor | None
    """Whom to ask before asking a victim whose limits all jobs share."""


Work = Callable[[str, str, Desk], str]
"""From the text that all jobs share and a job's own to its result; a function at the top of a module."""


@dataclass(frozen=True)
class Batch:
    """What all jobs have in common."""

    work: Work
    text: str
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
    """The file of the limits that all jobs share (`oracle/leases.py`)."""


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


def why(error: BaseException) -> str:
    """Why a job failed, in a sentence: what was raised on purpose says it itself."""
    return str(error) if isinstance(error, LeakmeterError) else f"{type(error).__name__}: {first_line(error)}"
