"""Jobs in processes of this machine. A process that dies costs its job only the work since the last checkpoint."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import chain
from multiprocessing import get_context

from leakmeter.errors import UsageError
from leakmeter.executors.job import TRIES, Batch, Job, Watch, kept_worker, perform, why


class LocalExecutor:
    """A pool of processes, by default one for each core."""

    def __init__(self, processes: int | None = None) -> None:
        self.processes = processes or len(os.sched_getaffinity(0))

    def run(self, batch: Batch, jobs: Iterable[Job], watch: Watch) -> None:
        """Runs the jobs; those caught in a dying pool go on in a new one, a few times."""
        waiting, again, deaths = iter(jobs), deque[Job](), Counter[str]()
        while (first := again.popleft() if again else next(waiting, None)) is not None:
            flying: dict[Future[str], Job] = {}
            try:
                self._run(batch, chain([first], _drain(again), waiting), flying, watch)
            except BrokenProcessPool:
                for job in flying.values():  # nobody knows whose process it was
                    deaths[job.place] += 1
                    if deaths[job.place] < TRIES:
                        watch.interrupted(job, "a process died")
                        again.append(job)
                    else:
                        watch.failed(job, f"its process died {TRIES} times")

    def _run(self, batch: Batch, jobs: Iterable[Job], flying: dict[Future[str], Job], watch: Watch) -> None:
        room = min(self.processes, batch.at_once or self.processes)
        # Spawned, not forked: torch's threads do not survive a fork.
        pool = ProcessPoolExecutor(
            room, mp_context=get_context("spawn"), initializer=_end_with_parent, initargs=(os.getpid(),)
        )
        coming = iter(jobs)
        try:
            while True:
                while len(flying) < room and (job := next(coming, None)) is not None:
                    flying[_submit(pool, batch, job)] = job
                    watch.started(job, socket.gethostname())
                if not flying:
                    return
                done, _ = wait(flying, return_when=FIRST_COMPLETED)
                for future in done:
                    _tell(future, flying[future], watch)
                    del flying[future]
        finally:
            pool.shutdown(cancel_futures=True)


def _submit(pool: ProcessPoolExecutor, batch: Batch, job: Job) -> Future[str]:
    try:
        return pool.submit(_perform, batch, job)
    except BrokenProcessPool as error:
        broken: Future[str] = Future()
        broken.set_exception(error)
        return broken


def _drain(jobs: deque[Job]) -> Iterable[Job]:
    while jobs:
        yield jobs.popleft()


def _tell(future: Future[str], job: Job, watch: Watch) -> None:
    error = future.exception()
    if error is None:
        watch.ended(job, future.result())
    elif isinstance(error, UsageError | BrokenProcessPool | KeyboardInterrupt):
        raise error
    else:
        watch.failed(job, why(error))


def _perform(batch: Batch, job: Job) -> str:
    return perform(kept_worker(batch, batch.limits), job, batch.folder)


def _end_with_parent(parent: int) -> None:
    """A killed driver must not leave workers behind that hold its jobs: whoever resumes would find them locked."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
