"""All cells of an audit: handed to an executor here, run by a worker in this process or another."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from leakmeter._audit.cell import SHARED, finished, run_cell
from leakmeter._audit.opening import load_test, open_victim, test_inputs
from leakmeter._audit.watching import watching
from leakmeter.compute import computing
from leakmeter.data.dataset import Dataset
from leakmeter.evaluation.score import Reference
from leakmeter.executors.bar import BatchBar
from leakmeter.executors.job import Batch, Executor, Job
from leakmeter.oracle.limits import Attempt, Limits, SharedPace
from leakmeter.plan import Cell, Plan
from leakmeter.progress import SILENT, Progress
from leakmeter.results import CellResult
from leakmeter.runs.run import Run
from leakmeter.victims.remote.pace import Share
from leakmeter.victims.remote.settings import RemoteSettings
from leakmeter.victims.victim import Victim

TRUTH = "truth.safetensors"
LEASES = "leases.sqlite"
_CELLS = "cells"
_PATIENCE = 180.0  # seconds; a network folder's server notices a dead machine after 90, as a rule


@dataclass(frozen=True)
class CellWorker:
    """Runs cells of `plan` with what is open in this process; a job's text is the id of its cell."""

    plan: Plan
    victim: Victim
    test: Dataset | None
    progress: Progress
    limits: Limits | None = None
    """Whom to ask before asking a victim whose limits all cells share."""

    def run(self, text: str, folder: Path) -> str:
        """The result of the cell as JSON, like that in its folder."""
        cell = next(cell for cell in self.plan.cells() if cell.id == text)
        with computing(self.plan.threads):
            kept = self.plan.data is not None or (folder / TRUTH).exists()  # the victim may not answer drawn inputs
            truth = Reference.load(folder / TRUTH, self.test, self.victim.spec) if self.test and kept else None
            run = Run.enter(folder / place(cell), cell.model_dump(mode="json"))
            # Before the lock: should an earlier worker still live, it is stopped by this at its next question, and
            # lets go.
            lease = None if self.limits is None else Attempt(self.limits, cell.id)
            with run.held(_PATIENCE):
                return run_cell(cell, self.plan, self.victim, truth, run, lease, self.progress).model_dump_json()


def open_worker(plan: Plan, connections: int, limits: Limits | None) -> CellWorker:
    """A worker in a process of its own, whose requests to a remote victim use so many connections at once."""
    share = None if limits is None else Share(SharedPace(limits), connections)
    with computing(plan.threads):
        test = load_test(plan)
        victim = open_victim(plan, test, share)
        return CellWorker(plan, victim, test_inputs(plan, test, victim), SILENT, limits)


def run_cells(
    plan: Plan, remote: bool, run: Run, executor: Executor, here: CellWorker | None, progress: Progress
) -> list[CellResult]:
    """Every cell, in the order of the plan whatever order they finish in; finished ones are not run again.

    Args:
        plan: a complete one.
        remote: whether the victim answers over HTTP.
        run: where the cells have their folders.
        executor: where they run.
        here: the worker of an executor that runs them in this process; others open what they need themselves.
        progress: who is told.
    """
    cells = {place(cell): cell for cell in plan.cells()}
    results = {at: known for at in cells if (known := finished(run.path / at)) is not None}
    left = [at for at in cells if at not in results]
    if results:
        progress.say(f"{len(results)} of {len(cells)} cells are finished already")

    def ended(job: Job, text: str) -> tuple[int, str]:
        result = results[job.place] = CellResult.model_validate_json(text)
        return result.spending.queries if result.spending else 0, result.error if result.status == "failed" else ""

    def failed(job: Job, why: str) -> None:
        results[job.place] = CellResult(**cells[job.place].identity, status="failed", error=why)

    if left:
        batch = _batch(plan, remote, run, len(left))
        if here is not None:
            batch = replace(batch, make_worker=lambda limits: replace(here, limits=limits))
        with progress.task("cells", len(left)) as task:
            jobs, bar = (Job(at, cells[at].id) for at in left), BatchBar(progress, task, ended, failed)
            shown = here is not None  # whose attacks show their own progress
            with nullcontext() if shown else watching(progress, run.path, lambda: bar.running, plan.budget):
                executor.run(batch, jobs, bar)
    shutil.rmtree(run.path / _CELLS / SHARED, ignore_errors=True)  # not before: until then cells may go on elsewhere
    return [results[at] for at in cells]


def _batch(plan: Plan, remote: bool, run: Run, cells: int) -> Batch:
    """How cells run. Those of a remote victim divide its connections among them: no more at once than there are."""
    connections = (plan.victim.remote or RemoteSettings()).concurrency
    at_once = min(cells, connections) if remote else None
    return Batch(
        partial(open_worker, plan, connections // (at_once or connections)),
        run.path,
        needs=(TRUTH,) if (run.path / TRUTH).exists() else (),
        cpus=plan.threads,
        gpus=int(plan.device.startswith("cuda")),
        at_once=at_once,
        patience=plan.patience,
        leases=run.path / LEASES if has_shared_limits(plan, remote) else None,
    )


def has_shared_limits(plan: Plan, remote: bool) -> bool:
    """Whether all cells together are limited, beyond each one's budget."""
    return remote or plan.total is not None


def place(cell: Cell) -> str:
    """Where in an audit's folder the cell has its own."""
    return f"{_CELLS}/{cell.id}"
