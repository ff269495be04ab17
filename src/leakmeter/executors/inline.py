"""Jobs in this process, one after the other: for a single one, and for a victim that lives here."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from contextlib import closing, nullcontext

from leakmeter.errors import UsageError
from leakmeter.executors.job import Batch, Job, Watch, perform, why


class InlineExecutor:
    """The same jobs as in other processes, and the same results; only a worker that dies takes the caller with it."""

    def run(self, batch: Batch, jobs: Iterable[Job], watch: Watch) -> None:
        """Runs the jobs in their order."""
        limits = batch.limits()
        with nullcontext() if limits is None else closing(limits):
            worker = batch.make_worker(limits)
            for job in jobs:
                watch.started(job, socket.gethostname())
                try:
                    text = perform(worker, job, batch.folder)
                except UsageError:
                    raise
                except Exception as error:
                    watch.failed(job, why(error))
                else:
                    watch.ended(job, text)
