"""A certification shared out: blocks of inputs are voted on wherever there is room, and the votes put together.

Inputs share batches only within a block (`sampling.py`), so the counts are those of one process, whatever the sharding.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from leakmeter._audit.opening import fit_test, load_test, open_victim
from leakmeter.certificates.counts_file import Tally
from leakmeter.certificates.sampling import Classifier, collect
from leakmeter.certificates.smoothing import Asked
from leakmeter.compute import computing
from leakmeter.errors import Inconclusive
from leakmeter.executors.bar import BatchBar
from leakmeter.executors.job import Batch, Executor, Job
from leakmeter.oracle.limits import Limits
from leakmeter.plan import Plan
from leakmeter.progress import SILENT, Progress

_SHARDS = "shards"


def cast_votes(
    plan: Plan,
    asked: dict[str, Any],
    model: Classifier,
    x: Tensor,
    path: Path,
    executor: Executor,
    progress: Progress = SILENT,
) -> None:
    """Fills the counts file at `path`, in a folder this process holds; blocks that it has already are not voted on."""
    file, size = Asked(**asked).file(path, model, x), Asked(**asked).sampling().block
    tally = file.load()
    starts = [i for i in range(0, len(x), size) if tally is None or not tally.done[i : i + size].all()]
    failures: list[str] = []

    def ended(job: Job, text: str) -> tuple[int, str]:
        nonlocal tally
        first, votes = json.loads(job.text), torch.tensor(json.loads(text))
        tally = tally or Tally.empty(len(x), votes.shape[2])
        for i, (selection, counts) in enumerate(votes):
            tally.put(first + i, selection, counts)
        file.save_if_due(tally)
        return 0, ""

    def failed(job: Job, why: str) -> None:
        failures.append(f"{job.place}: {why}")

    if not starts:
        return
    gpus = int(plan.device.startswith("cuda"))
    batch = Batch(partial(open_voter, plan, Asked(**asked)), path.parent, cpus=plan.threads, gpus=gpus)
    with progress.task("blocks of inputs", len(starts)) as task:
        jobs = (Job(_place(start), str(start)) for start in starts)
        try:
            executor.run(batch, jobs, BatchBar(progress, task, ended, failed))
        finally:
            if tally is not None:
                file.save(tally)
    if failures:
        raise Inconclusive(f"{len(failures)} of {len(starts)} blocks have no votes; the first, {failures[0]}")
    shutil.rmtree(path.parent / _SHARDS, ignore_errors=True)


@dataclass(frozen=True, eq=False)
class Voter:
    """Casts the votes on blocks of `x`; a job's text is where its block starts."""

    asked: Asked
    model: Classifier
    x: Tensor
    threads: int

    def run(self, text: str, folder: Path) -> str:
        """The votes on one block; those cast before a kill are not cast again."""
        first = int(text)
        with computing(self.threads):
            sampling = self.asked.sampling()
            block = self.x[first : first + sampling.block]
            file = self.asked.file(folder / _place(first) / "counts", self.model, block, first)
            tally = collect(self.model, block, sampling, first=first, file=file)
        return json.dumps(torch.stack([tally.selection, tally.counts], 1).tolist())


def open_voter(plan: Plan, asked: Asked, _: Limits | None = None) -> Voter:
    """A voter in a process of its own."""
    with computing(plan.threads):
        test = load_test(plan)
        assert test is not None
        victim = open_victim(plan, test)
        x = fit_test(test, victim).labelled()[0]
        return Voter(asked, victim.white_box, x.to(plan.device), plan.threads)


def _place(first: int) -> str:
    return f"{_SHARDS}/{first}"
