"""How long an audit takes with more workers: a simulator fed with costs measured here, and its error here.

    OMP_NUM_THREADS=1 python bench/scaling.py [--seed 0]

1. Measures what an audit costs beside its cells, what a cell costs beside its attack, and what each of ten attacks
   costs at two budgets: `fixed + queries × each`.
2. Predicts an audit of twice the larger budget on one and on two workers, then runs it: the error.
3. Predicts 20 million queries × 10 attacks × 5 seeds on 1, 16, 50 and 256 workers.

Cells go to whichever worker is free, in the plan's order; a cell is never split. The costs are those of LeNet on 8×8
digits on this CPU, taken as linear in the queries far beyond what was measured, so the last part says how an audit
scales, not what yours costs. Writes results/bench/scaling.json.
"""

from __future__ import annotations

import argparse
import heapq
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from _keep import keep

import leakmeter as lm
from leakmeter.results import AuditResult

SMALL, LARGE, CHECKED, WANTED = 1_000, 3_000, 6_000, 20_000_000
SEEDS, WORKERS = 5, (1, 16, 50, 256)
_STEPS = {"steps": 400, "batch": 100, "lr": 3e-3, "schedule": "cyclic"}
ATTACKS: list[dict[str, Any]] = [
    {"name": "surrogate", "pool": "gaussian", "recipe": _STEPS},
    {"name": "procedural", "committee": 1, "lessons": 0, "learn": _STEPS},
    {"name": "dfme", "batch": 64, "width": 16, "student_optimizer": "adam", "student_lr": 2e-3, "generator_lr": 1e-3},
    {"name": "codfe", "width": 16},
    {"name": "dast", "width": 8, "batch": 200},
]
VIEWS = ["probs", "probs:3"]


@dataclass(frozen=True)
class Cost:
    """Seconds of one attack."""

    fixed: float
    each: float

    def of(self, queries: int) -> float:
        """At so many queries."""
        return self.fixed + self.each * queries


def simulate(cells: Iterable[float], workers: int, *, start: float, overhead: float) -> float:
    """Seconds until the last cell is done, each given to the worker that is free first."""
    free = [start] * workers
    for seconds in cells:
        heapq.heappush(free, heapq.heappop(free) + overhead + seconds)
    return max(free)


def run(workers: int, budget: int, seeds: list[int], attacks: Any = ATTACKS) -> tuple[float, AuditResult]:
    """An audit of the embedded digits, and how long it took."""
    plan = {
        "name": "scaling",
        "victim": {"source": "leakmeter.demo:digits_victim"},
        "data": {"name": "digits"},
        "threads": 1,
        "views": VIEWS,
        "budget": budget,
        "stops": [budget],
        "seeds": seeds,
        "attacks": attacks,
    }
    with tempfile.TemporaryDirectory() as out:
        begin = time.perf_counter()
        result = lm.audit(plan, out=out, executor=f"local:{workers}")
        return time.perf_counter() - begin, result


def before() -> float:
    """Seconds of an audit that are not its cells': loading, importing in the worker, the report."""
    seconds, done = run(1, 10, [0], [{"name": "surrogate", "pool": "gaussian", "recipe": {"steps": 1}}])
    return seconds - sum(cell.seconds for cell in done.cells)


def costs(seed: int, start: float) -> tuple[dict[tuple[str, str], Cost], float]:
    """Every attack's cost through every view from two budgets, and what a cell costs beside its attack."""
    (wall1, small), (wall2, large) = (run(1, budget, [seed]) for budget in (SMALL, LARGE))
    cells = [*small.cells, *large.cells]
    overhead = (wall1 + wall2 - 2 * start - sum(cell.seconds for cell in cells)) / len(cells)
    found = {}
    for one, other in zip(small.cells, large.cells, strict=True):
        each = max(0.0, (other.seconds - one.seconds) / (LARGE - SMALL))
        found[one.attack, one.view] = Cost(max(0.0, one.seconds - each * SMALL), each)
    return found, max(0.0, overhead)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    start = before()
    known, overhead = costs(asked.seed, start)
    checks = []
    for workers in (1, 2):
        took, result = run(workers, CHECKED, [asked.seed + 1, asked.seed + 2])
        cells = [known[cell.attack, cell.view].of(CHECKED) for cell in result.cells]
        said = simulate(cells, workers, start=start, overhead=overhead)
        checks.append({"workers": workers, "seconds": took, "predicted": said, "error": said / took - 1})
    wanted = [cost.of(WANTED) for cost in known.values() for _ in range(SEEDS)]
    alone = simulate(wanted, 1, start=start, overhead=overhead)
    predicted = []
    for workers in WORKERS:
        hours = simulate(wanted, workers, start=start, overhead=overhead) / 3600
        predicted.append({"workers": workers, "hours": hours, "times faster": alone / 3600 / hours})
    record = {
        "command": f"python bench/scaling.py --seed {asked.seed}",
        "seconds of an audit beside its cells": start,
        "seconds of a cell beside its attack": overhead,
        "microseconds a query": {f"{attack}, {view}": 1e6 * cost.each for (attack, view), cost in known.items()},
        f"{CHECKED} queries x {len(known)} attacks x 2 seeds, predicted and run": checks,
        f"{WANTED} queries x {len(known)} attacks x {SEEDS} seeds, predicted": predicted,
    }
    keep("scaling", record)


if __name__ == "__main__":
    main()
