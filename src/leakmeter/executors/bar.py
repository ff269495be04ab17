"""A batch of jobs as one bar: how many are done, which run where, what failed and why, and how fast queries go."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from leakmeter.executors.job import Job
from leakmeter.progress import Progress, Task

_HOSTS = 3  # more do not fit beside a bar


class BatchBar:
    """Watches an executor.

    Args:
        progress: where lines go.
        task: the bar.
        ended: keeps a job's result, and says what to show: how many queries it cost, and why it failed, if it did.
        failed: keeps the failure of a job that has no result.
    """

    def __init__(
        self,
        progress: Progress,
        task: Task,
        ended: Callable[[Job, str], tuple[int, str]],
        failed: Callable[[Job, str], None],
    ) -> None:
        self._progress, self._task, self._keep, self._keep_failure = progress, task, ended, failed
        self._running: dict[str, str] = {}
        self._failures, self._queries, self._start = 0, 0, time.monotonic()

    @property
    def running(self) -> list[str]:
        """The jobs under way, by their places."""
        return list(self._running)

    def started(self, job: Job, where: str) -> None:
        """One more is running."""
        self._running[job.place] = where
        self._task.advance(0, self.note)

    def interrupted(self, job: Job, why: str) -> None:
        """Told at once: a machine may need help."""
        self._progress.say(f"{job.place} was interrupted on {self._running.pop(job.place, '?')}: {why}; it goes on")

    def ended(self, job: Job, text: str) -> None:
        """One more is done, or has found that it cannot be."""
        queries, why = self._keep(job, text)
        self._queries += queries
        self._leave(job, why)

    def failed(self, job: Job, why: str) -> None:
        """One more will never be done."""
        self._keep_failure(job, why)
        self._leave(job, why)

    @property
    def note(self) -> str:
        """What the bar itself does not show."""
        hosts = Counter(self._running.values()).most_common()
        where = ", ".join(f"{count} on {host}" for host, count in hosts[:_HOSTS])
        parts = [f"running: {where}{' and elsewhere' if len(hosts) > _HOSTS else ''}"] if where else []
        if self._failures:
            parts.append(f"{self._failures} failed")
        if self._queries:
            parts.append(f"{self._queries / (time.monotonic() - self._start):,.0f} queries/s")
        return "; ".join(parts)

    def _leave(self, job: Job, why: str) -> None:
        where = self._running.pop(job.place, "?")
        if why:
            self._failures += 1
            self._progress.say(f"{job.place} failed on {where}: {why}")
        self._task.advance(note=self.note)
