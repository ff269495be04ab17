"""Cells on Ray: two one-thread workers against one, what a cell costs beyond its own work, the driver's memory.

    python bench/cluster.py [--cells 8] [--steps 4000] [--jobs 10000]

One plan of equal cells runs in this process, then on a cluster of this machine with one CPU, then with two; on Ray from
the moment a worker has the first cell, so that starting Ray and importing torch in each worker are told apart.
Efficiency is the time of one worker over twice that of two; the overhead of a cell is what it takes longer on one
worker than here. Memory is the driver's peak, in a process of its own, with so many jobs that do nothing, and with a
tenth of them. Writes results/bench/cluster.json.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from _keep import keep

import leakmeter as lm
from leakmeter.executors import make_executor
from leakmeter.executors.job import Batch, Job
from leakmeter.progress import SILENT
from leakmeter.runs.run import Run

EFFICIENCY, OVERHEAD, MEMORY = 0.85, 0.5, 500
SHOP = """
from leakmeter.models import make_model

def net():
    return make_model("lenet", (1, 8, 8), 10, seed=0)
"""


def plan(cells: int, steps: int) -> dict[str, Any]:
    return {
        "victim": {"source": "shop.py:net"},
        "data": {"name": "digits"},
        "views": ["probs"],
        "detectors": [],
        "budget": 500,
        "stops": [500],
        "seeds": list(range(cells)),
        "attacks": [{"name": "surrogate", "student": "mlp:64", "recipe": {"steps": steps, "batch": 64}}],
    }


class Stopwatch:
    """Progress that notes when the first cell starts and the last one ends."""

    first, last = 0.0, 0.0

    def say(self, line: str) -> None:
        """Shows what goes wrong."""
        print(line, file=sys.stderr)

    @contextmanager
    def task(self, title: str, total: int | None) -> Iterator[Any]:
        """Looks at the bar of the cells only."""
        with SILENT.task(title, total) as silent:
            yield self if title == "cells" else silent

    def advance(self, steps: int = 1, note: str = "") -> None:  # noqa: ARG002
        """Ray tells when a worker has a cell, with no step."""
        self.last = time.perf_counter()
        self.first = self.first or self.last


def here(content: dict[str, Any]) -> float:
    victim = lm.load_victim("shop.py:net", input_shape=(1, 8, 8), low=0.0, high=1.0)
    watch = Stopwatch()
    watch.first = time.perf_counter()
    lm.audit(content, victim=victim, out="here", progress=watch)
    return watch.last - watch.first


def there(content: dict[str, Any], workers: int) -> float:
    ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False, logging_level="critical")
    watch = Stopwatch()
    result = lm.audit(content, out=f"on{workers}", executor="ray", progress=watch)
    ray.shutdown()
    assert all(cell.status == "done" for cell in result.cells)
    return watch.last - watch.first


class Idle:
    """A worker that does nothing."""

    def __init__(self, limits: object) -> None:
        """Opens nothing."""

    def run(self, text: str, folder: Path) -> str:  # noqa: ARG002
        """Gives back what it was told."""
        return text


class Counter:
    """Watches, and keeps nothing."""

    done = 0

    def started(self, job: Job, where: str) -> None:
        """Ignores it."""

    def interrupted(self, job: Job, why: str) -> None:
        """Ignores it."""

    def ended(self, job: Job, text: str) -> None:  # noqa: ARG002
        """Counts."""
        self.done += 1

    def failed(self, job: Job, why: str) -> None:
        """Must not be."""
        raise RuntimeError(f"{job.place}: {why}")


def trivial(jobs: int) -> None:
    """In a process of its own, whose memory is then that of a driver."""
    ray.cloudpickle.register_pickle_by_value(sys.modules["__main__"])
    with tempfile.TemporaryDirectory() as folder:
        run, counter, start = Run.enter(Path(folder) / "run", {}), Counter(), time.perf_counter()
        with run.held():
            coming = (Job(f"jobs/{i}", str(i)) for i in range(jobs))
            make_executor("ray").run(Batch(Idle, run.path), coming, counter)
    assert counter.done == jobs
    # Not getrusage, which begins with what the process that started this one had.
    peak = int(re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[0]) / 1024
    print(json.dumps({"jobs": jobs, "peak_mb": round(peak), "seconds": time.perf_counter() - start}))


def driver_memory(jobs: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--trivial", str(jobs)]
    lines = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    found: dict[str, float] = json.loads(lines[-1])
    return found


def compare(cells: int, steps: int) -> dict[str, float]:
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            Path("shop.py").write_text(SHOP)
            here(plan(1, 50) | {"seeds": [0, 1]})  # warms up
            alone = here(plan(cells, steps))
            one, two = there(plan(cells, steps), 1), there(plan(cells, steps), 2)
        finally:
            os.chdir(before)
    return {
        "in_process_seconds": alone,
        "one_worker_seconds": one,
        "two_workers_seconds": two,
        "efficiency": one / (2 * two),
        "overhead_seconds_per_cell": (one - alone) / cells,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=8)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--trivial", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    if given.trivial is not None:
        trivial(given.trivial)
        return
    record = {
        "command": f"python bench/cluster.py --cells {given.cells} --steps {given.steps} --jobs {given.jobs}",
        "cores": os.cpu_count(),
        "load_average_before": os.getloadavg()[0],
        "targets": {"efficiency": EFFICIENCY, "overhead_seconds_per_cell": OVERHEAD, "driver_peak_mb": MEMORY},
        **compare(given.cells, given.steps),
        "driver": [driver_memory(max(1, given.jobs // 10)), driver_memory(given.jobs)],
    }
    keep("cluster", record)


if __name__ == "__main__":
    main()
