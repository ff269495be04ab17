"""What a process that runs cells does: load the victim once, then run whatever cell it is given."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from leakmeter.cells import run_cell
from leakmeter.compute import computing
from leakmeter.evaluation.score import Reference
from leakmeter.opening import load_test, open_victim
from leakmeter.oracle.ledger import Prices
from leakmeter.plan import Cell, Plan
from leakmeter.progress import SILENT, Progress
from leakmeter.results import CellResult
from leakmeter.runs.run import Run
from leakmeter.victims.victim import Victim

TRUTH = "truth.safetensors"


def work(plan_json: str, cell_json: str, folder: str) -> str:
    """Runs one cell of a plan in `folder`; text in, text out, so that any process or machine can be asked."""
    plan, cell = Plan.model_validate_json(plan_json), Cell.model_validate_json(cell_json)
    with computing(plan.threads):
        victim, truth = _opened(plan_json, folder)
        return work_here(plan, cell, victim, truth, Path(folder)).model_dump_json()


def work_here(
    plan: Plan, cell: Cell, victim: Victim, truth: Reference | None, folder: Path, progress: Progress = SILENT
) -> CellResult:
    """Runs one cell in this process."""
    run = Run.enter(folder / "cells" / cell.id, cell.model_dump(mode="json"))
    with run.held():
        return run_cell(cell, victim, truth, run, **settings(plan), progress=progress)


def settings(plan: Plan) -> dict[str, Any]:
    """What every cell of the plan shares."""
    prices = None if plan.prices is None else Prices(plan.prices.query, plan.prices.explanation)
    return {"prices": prices, "device": plan.device}


def failed(cell: Cell, why: str) -> CellResult:
    """The result of a cell that has none."""
    return CellResult(**cell.identity, status="failed", error=why)


@lru_cache(maxsize=1)
def _opened(plan_json: str, folder: str) -> tuple[Victim, Reference | None]:
    plan = Plan.model_validate_json(plan_json)
    test = load_test(plan)
    victim = open_victim(plan, test)
    path = Path(folder) / TRUTH
    return victim, None if test is None else Reference.load(path, test, victim.spec)
