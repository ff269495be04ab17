"""Jobs in processes of this machine. A process that dies costs its job only the work since the last checkpoint.

Each process has a channel of its own, over which it gives a sign of life every second: so it is known whose job a dead
process had, and one that is stopped, or stuck where nothing can interrupt it, is ended and its job begun again.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from multiprocessing import connection, get_context
from multiprocessing.connection import Connection
from typing import Literal

from leakmeter.compute import give_back
from leakmeter.errors import UsageError
from leakmeter.executors.job import TRIES, Batch, Job, Watch, kept_worker, perform, why
from leakmeter.patience import overdue

Message = tuple[Literal["alive", "ended", "failed", "usage"], str]
_BEAT = 1.0
_SILENCE_COUNTS = 3  # deaths; a worker that is silent twice has cost twice the patience
_DEATH = 5.0  # seconds to wait for a killed process: one that hangs in the kernel is left behind
_START = 120.0  # seconds without a sign of life while a process imports what it needs


class LocalExecutor:
    """Processes of their own, by default one for each core."""

    def __init__(self, processes: int | None = None) -> None:
        self.processes = processes or len(os.sched_getaffinity(0))

    def run(self, batch: Batch, jobs: Iterable[Job], watch: Watch) -> None:
        """Runs the jobs; one whose process dies goes on in a new one, a few times."""
        room = min(self.processes, batch.at_once or self.processes)
        waiting, again, deaths = iter(jobs), deque[Job](), Counter[str]()
        busy: dict[Connection, _Process] = {}
        idle: list[_Process] = []
        try:
            while True:
                while len(busy) < room and (job := again.popleft() if again else next(waiting, None)) is not None:
                    process = idle.pop() if idle else _Process()
                    busy[process.channel] = process
                    process.begin(batch, job)
                    watch.started(job, socket.gethostname())
                if not busy:
                    return
                for process in _ready(busy, batch.patience):
                    outcome = process.hear(batch.patience)
                    if outcome is None:
                        continue
                    del busy[process.channel]
                    if outcome[0] == "died":
                        self._died(process, outcome[1], deaths, again, watch)
                    else:
                        idle.append(process)
                        _tell(outcome, process.job, watch)
        finally:
            for process in (*busy.values(), *idle):
                process.end()

    def _died(self, process: _Process, how: str, deaths: Counter[str], again: deque[Job], watch: Watch) -> None:
        process.end()
        job = process.job
        deaths[job.place] += _SILENCE_COUNTS if process.silent else 1
        if deaths[job.place] < TRIES:
            watch.interrupted(job, how)
            again.append(job)
        else:
            watch.failed(job, f"{how}, and so it did each time it was begun again")


class _Process:
    """A process that does one job after the other."""

    job: Job

    def __init__(self) -> None:
        context = get_context("spawn")  # not forked: torch's threads do not survive a fork
        self.channel, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, os.getpid()))
        self._process.start()
        theirs.close()
        self._heard, self._begun, self.silent = time.monotonic(), False, False

    def begin(self, batch: Batch, job: Job) -> None:
        """Gives it a job."""
        self.job, self._heard = job, time.monotonic()
        with suppress(OSError):  # it is dead, which is heard next
            self.channel.send((batch, job))

    def quiet(self, patience: float) -> bool:
        """Whether it has given no sign of life for too long."""
        return time.monotonic() - self._heard > (patience if self._begun else max(patience, _START))

    def hear(self, patience: float) -> tuple[str, str] | None:
        """What became of its job; None: it is still at it."""
        try:
            while self.channel.poll():
                kind, text = self.channel.recv()
                self._heard, self._begun = time.monotonic(), True
                if kind != "alive":
                    return kind, text
        except (EOFError, OSError):
            return "died", "its process died"
        if self.quiet(patience):
            self.silent = True
            return "died", f"its process gave no sign of life for {patience:g} s"
        return None

    def end(self) -> None:
        """Kills it: what it has paid for is on disk."""
        self._process.kill()
        self._process.join(_DEATH)
        self.channel.close()


def _ready(busy: dict[Connection, _Process], patience: float) -> list[_Process]:
    """Those that have something to say, or nothing for too long."""
    spoken = connection.wait(list(busy), timeout=_BEAT)
    return [process for channel, process in busy.items() if channel in spoken or process.quiet(patience)]


def _tell(outcome: tuple[str, str], job: Job, watch: Watch) -> None:
    kind, text = outcome
    if kind == "usage":
        raise UsageError(text)
    if kind == "ended":
        watch.ended(job, text)
    else:
        watch.failed(job, text)


def _work(channel: Connection, parent: int) -> None:
    """The life of a process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver ends it
    lock = threading.Lock()

    def say(message: Message) -> None:
        with lock:
            channel.send(message)

    threading.Thread(target=_beat, args=(say, parent), daemon=True).start()
    with suppress(EOFError):
        while True:
            batch, job = channel.recv()
            say(_perform(batch, job))


def _perform(batch: Batch, job: Job) -> Message:
    try:
        return "ended", perform(kept_worker(batch, batch.limits), job, batch.folder)
    except UsageError as error:
        return "usage", str(error)
    except BaseException as error:
        return "failed", why(error)


def _beat(say: Callable[[Message], None], parent: int) -> None:
    """Gives signs of life, and ends the process with the driver or with a victim that cannot be ended otherwise.

    A killed driver must not leave workers behind that hold its jobs: whoever resumes would find them locked.
    """
    while os.getppid() == parent:
        give_back()  # workers share a machine, and networks of large pictures leave much behind
        if (late := overdue()) is not None:
            with suppress(OSError):
                say(("failed", late))
            break
        with suppress(OSError):
            say(("alive", ""))
        time.sleep(_BEAT)
    os._exit(1)
