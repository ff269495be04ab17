"""What a worker on some machine does with a job, told to the driver as it goes."""

from __future__ import annotations

import socket
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from leakmeter.executors.job import Batch, Desk, Job
from leakmeter.oracle.limits import Lessor
from leakmeter.runs.parcel import Arrival, Piece, packed
from leakmeter.runs.run import is_held

SECONDS_BETWEEN_PARCELS = 30.0


@dataclass(frozen=True)
class Started:
    """A worker has the job."""

    where: str


@dataclass(frozen=True)
class Whole:
    """The pieces since the last such word are the job's folder, complete."""


@dataclass(frozen=True)
class Ended:
    """The job is done."""

    text: str


Word = Started | Piece | Whole | Ended


def run_errand(
    batch: Batch, job: Job, lessor: Lessor | None, needs: Iterable[Piece], left: Iterable[Piece]
) -> Iterator[Word]:
    """Works in the batch's folder if this machine sees it; else in one of its own, whose content it sends.

    Args:
        batch: what all jobs share.
        job: the one to do.
        lessor: where to ask before asking a victim whose limits are shared.
        needs: the files that every job reads.
        left: what an earlier attempt left in the job's folder.
    """
    yield Started(socket.gethostname())
    if is_held(batch.folder):
        yield Ended(batch.work(batch.text, job.text, Desk(batch.folder, lessor)))
        return
    with tempfile.TemporaryDirectory(prefix="leakmeter-") as name, ThreadPoolExecutor(1) as thread:
        folder = Path(name) / "folder"
        own = folder / job.place
        _unpack(needs, folder)
        _unpack(left, own)
        working, pause = thread.submit(batch.work, batch.text, job.text, Desk(folder, lessor)), SECONDS_BETWEEN_PARCELS
        while wait([working], pause).not_done:
            start = time.monotonic()
            yield from _parcel(own)
            pause = max(SECONDS_BETWEEN_PARCELS, 10 * (time.monotonic() - start))
        yield from _parcel(own)  # also of a job that failed: what it paid for must not be lost
        yield Ended(working.result())


def _parcel(folder: Path) -> Iterator[Word]:
    sent = False
    for piece in packed(folder):
        sent = True
        yield piece
    if sent:
        yield Whole()


def _unpack(parts: Iterable[Piece], folder: Path) -> None:
    arrival = None
    for piece in parts:
        arrival = arrival or Arrival(folder)
        arrival.add(piece)
    if arrival is not None:
        arrival.finish()
