"""What a process that runs cells does: load the victim once, then run whatever cell it is given."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from leakmeter._audit.cell import run_cell
from leakmeter._audit.opening import load_test, open_victim
from leakmeter.compute import computing
from leakmeter.data.dataset import Dataset
from leakmeter.evaluation.score import Reference
from leakmeter.executors.job import Desk
from leakmeter.oracle.ledger import Prices
from leakmeter.oracle.limits import Lease, Lessor
from leakmeter.plan import Cell, Plan
from leakmeter.progress import SILENT, Progress
from leakmeter.results import CellResult
from leakmeter.runs.run import Run
from leakmeter.settings import Settings
from leakmeter.victims.remote.share import Share, SharedPace, sharing
from leakmeter.victims.victim import Victim

TRUTH = "truth.safetensors"
_PATIENCE = 180.0  # seconds; a network folder's server notices a dead machine after 90, as a rule


class Common(Settings):
    """What all cells of an audit share."""

    plan: Plan
    connections: int = 1
    """How many requests each may have under way at a remote victim."""


def work(common: str, text: str, desk: Desk) -> str:
    """Runs one cell; text in, text out, so that any process or machine can be asked."""
    plan, cell = Common.model_validate_json(common).plan, Cell.model_validate_json(text)
    with computing(plan.threads):
        victim, test = _opened(common, desk.lessor)
        truth = None if test is None else Reference.load(desk.folder / TRUTH, test, victim.spec)
        return work_here(plan, cell, victim, truth, desk.folder, desk.lessor).model_dump_json()


def work_here(
    plan: Plan,
    cell: Cell,
    victim: Victim,
    truth: Reference | None,
    folder: Path,
    lessor: Lessor | None = None,
    progress: Progress = SILENT,
) -> CellResult:
    """Runs one cell in this process."""
    run = Run.enter(folder / place(cell), cell.model_dump(mode="json"))
    # Before the lock: should an earlier worker still live, it is stopped by this at its next question, and lets go.
    lease = None if lessor is None else Lease(lessor, cell.id)
    with run.held(_PATIENCE):
        return run_cell(cell, victim, truth, run, **settings(plan), lease=lease, progress=progress)


def place(cell: Cell) -> str:
    """Where in an audit's folder the cell has its own."""
    return f"cells/{cell.id}"


def settings(plan: Plan) -> dict[str, Any]:
    """What every cell of the plan shares."""
    prices = None if plan.prices is None else Prices(plan.prices.query, plan.prices.explanation)
    return {"prices": prices, "device": plan.device}


def failed(cell: Cell, why: str) -> CellResult:
    """The result of a cell that has none."""
    return CellResult(**cell.identity, status="failed", error=why)


@lru_cache(maxsize=1)
def _opened(common: str, lessor: Lessor | None) -> tuple[Victim, Dataset | None]:
    shared = Common.model_validate_json(common)
    test = load_test(shared.plan)
    with sharing(None if lessor is None else Share(SharedPace(lessor), shared.connections)):
        return open_victim(shared.plan, test), test
