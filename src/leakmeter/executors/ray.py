"""Jobs on a Ray cluster (extra `[ray]`).

A worker that sees the driver's folder works in it. One that does not works in a folder of its own, from which the whole
job comes back through Ray's object store, a few megabytes at a time, every now and then while it runs and once when it
is done; each time the driver keeps it only when it is whole.

A worker or a machine that dies costs the work since the job's last checkpoint, and no answer that was paid for. Without
a shared folder it costs the work since the last snapshot: what was asked since then is asked again, and, where the
model is remote, counted twice, as it was asked twice.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from leakmeter.errors import Inconclusive, UsageError, first_line, missing_extra
from leakmeter.executors.job import TRIES, Batch, Job, Watch, why
from leakmeter.executors.ray_agent import watched_agent
from leakmeter.oracle.limits import Limits
from leakmeter.runs.transport import ReplacedFolder, pieces, snapshot, undo_half_replaced

try:
    import ray
    from ray.exceptions import RayError, RayTaskError

    from leakmeter.executors.ray_worker import Alive, Ended, FolderSent, Message, Started, run_job, share_limits
except ImportError as error:
    raise missing_extra("ray", "ray") from error

_PIECES_AHEAD = 4  # that a worker may have sent and the driver not yet taken
_SPARE = 4  # jobs waiting at the cluster beside those that run, so that no worker waits for the driver
_SECONDS_BETWEEN_LOOKS = 10.0  # at the size of the cluster, which may grow


@dataclass
class _RunningJob:
    """A job on the cluster."""

    job: Job
    sent: list[Any]
    """References to what it was sent, which must live as long as it may be read."""
    heard: float | None = None
    """When it last gave a sign of life; None: it has not begun."""
    folder: ReplacedFolder | None = None
    """What is coming back from a machine that does not share the folder."""


class RayExecutor:
    """Each job is a Ray task that asks for the batch's CPUs and GPUs.

    Args:
        address: of a running cluster; None: that of RAY_ADDRESS, or a cluster of this machine alone.
    """

    def __init__(self, address: str | None = None) -> None:
        self._address = address

    def run(self, batch: Batch, jobs: Iterable[Job], watch: Watch) -> None:
        """Runs the jobs, few more of them at the cluster at any time than it has room for."""
        with _connected(self._address):
            run = _Run(batch, watch)
            try:
                run.all(iter(jobs))
            except (RayError, ConnectionError, TimeoutError) as error:
                raise Inconclusive(
                    f"the Ray cluster cannot be reached any more ({type(error).__name__}); go on with --resume"
                ) from error
            finally:
                with suppress(Exception):
                    run.cancel()


class _Run:
    def __init__(self, batch: Batch, watch: Watch) -> None:
        leases = batch.leases and batch.leases.resolve()  # a worker's current folder is another
        batch = replace(batch, folder=batch.folder.resolve(), leases=leases)
        self._batch, self._watch = batch, watch
        self._limits = None if leases is None else share_limits(leases)
        self._needs = [ray.put(piece) for piece in pieces(batch.folder, batch.needs)]
        self._shared = ray.put((batch, Path.cwd()))
        self._task = ray.remote(_perform).options(
            num_cpus=batch.cpus,
            num_gpus=batch.gpus,
            max_retries=0,  # a job that goes on must be told where from
            num_returns="streaming",
            _generator_backpressure_num_objects=_PIECES_AHEAD,
        )
        self._running: dict[Any, _RunningJob] = {}
        self._again: deque[Job] = deque()
        self._deaths: Counter[str] = Counter()

    def all(self, jobs: Iterator[Job]) -> None:
        """Sends, listens, and sends again, until there is nothing to wait for."""
        if self._fit() == 0:
            wanted = f"{self._batch.cpus} CPUs and {self._batch.gpus} GPUs"
            raise UsageError(
                f"expected a machine in the cluster with {wanted} for a job, got none; use fewer --threads"
            )
        looked, room = float("-inf"), 0
        while True:
            if time.monotonic() - looked > _SECONDS_BETWEEN_LOOKS:
                looked, room = time.monotonic(), self._fit() + _SPARE
                room = min(room, self._batch.at_once or room)
            while len(self._running) < room:
                job = self._again.popleft() if self._again else next(jobs, None)
                if job is None:
                    break
                self._send(job)
            if not self._running:
                return
            ready, _ = ray.wait(list(self._running), num_returns=1, timeout=_SECONDS_BETWEEN_LOOKS, fetch_local=False)
            for stream in ready:
                self._hear(stream)
            self._end_silent()

    def cancel(self) -> None:
        """Ends whatever is still under way: a cluster may outlive us."""
        for stream in self._running:
            ray.cancel(stream, force=True)

    def _fit(self) -> int:
        """How many jobs can run at once on the machines there are now."""
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
        asked = {kind: n for kind, n in (("CPU", self._batch.cpus), ("GPU", self._batch.gpus)) if n}
        return sum(min(int(node.get(kind, 0) // n) for kind, n in asked.items()) for node in nodes)

    def _send(self, job: Job) -> None:
        folder = self._batch.folder / job.place
        undo_half_replaced(folder)
        sent = [ray.put(piece) for piece in snapshot(folder)] if folder.exists() else []
        stream = self._task.remote(self._shared, job, self._limits, self._needs, sent)
        self._running[stream] = _RunningJob(job, sent)

    def _hear(self, stream: Any) -> None:
        running = self._running[stream]
        running.heard = time.monotonic()
        try:
            message = ray.get(next(stream))
        except RayTaskError as error:
            del self._running[stream]
            self._raised(running.job, error)
        except RayError as error:
            del self._running[stream]
            self._died(running.job, f"its worker died ({type(error).__name__})")
        else:
            if isinstance(message, Ended):  # the last word: whatever becomes of the worker now
                del self._running[stream]
            self._take(running, message)

    def _end_silent(self) -> None:
        """Begins again what a worker has that gives no sign of life: its machine may be gone, or stopped."""
        longest = self._batch.patience
        for stream, running in list(self._running.items()):
            if running.heard is not None and time.monotonic() - running.heard > longest:
                del self._running[stream]
                ray.cancel(stream, force=True)
                self._died(running.job, f"its worker gave no sign of life for {longest:g} s")

    def _take(self, running: _RunningJob, message: Message) -> None:
        if isinstance(message, Started):
            self._watch.started(running.job, message.where)
        elif isinstance(message, Ended):
            self._watch.ended(running.job, message.text)
        elif isinstance(message, Alive):
            return
        elif isinstance(message, FolderSent):
            if running.folder is not None:
                running.folder.finish()
            running.folder = None
        else:
            running.folder = running.folder or ReplacedFolder(self._batch.folder / running.job.place)
            running.folder.add(message)

    def _raised(self, job: Job, error: RayTaskError) -> None:
        cause = error.cause if isinstance(error.cause, Exception) else error
        if isinstance(cause, UsageError):
            raise cause from None
        self._watch.failed(job, why(cause))

    def _died(self, job: Job, how: str) -> None:
        self._deaths[job.place] += 1
        if self._deaths[job.place] < TRIES:
            self._watch.interrupted(job, how)
            self._again.append(job)
        else:
            self._watch.failed(job, f"{how}, {TRIES} times")


def _perform(
    shared: tuple[Batch, Path], job: Job, limits: Limits | None, needs: list[Any], left: list[Any]
) -> Iterator[Message]:
    """The task. What it is sent is fetched piece by piece, and only where the folder is not seen."""
    batch, here = shared
    with suppress(OSError):  # on this machine, or a folder all share: the victim's code may lie there
        os.chdir(here)
    yield from run_job(batch, job, limits, map(ray.get, needs), map(ray.get, left))


@contextmanager
def _connected(address: str | None) -> Iterator[None]:
    """Joins a cluster, or starts one on this machine that ends with the block; one already joined is left as it is."""
    if ray.is_initialized():
        yield
        return
    address = address or os.environ.get("RAY_ADDRESS")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # an audit reports to nobody
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    alone: dict[str, Any] = {"num_cpus": len(os.sched_getaffinity(0)), "include_dashboard": False}
    given = alone if address is None else {"address": address}
    try:
        ray.init(**given, log_to_driver=False, logging_level=logging.CRITICAL)
    except (ConnectionError, ValueError, RuntimeError, TimeoutError) as error:
        where = f"join the Ray cluster at {address}" if address else "start Ray here"
        raise UsageError(f"cannot {where}: {first_line(error)}") from error
    try:
        with watched_agent():
            yield
    finally:
        ray.shutdown()
