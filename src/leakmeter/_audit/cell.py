"""One cell: a victim behind its view and defense, one attack, one seed, one run directory that survives a kill."""

from __future__ import annotations

import os
import shutil
import socket
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from leakmeter.defenses import NONE, defend, undoing
from leakmeter.detectors.detection import Recorder, detect
from leakmeter.errors import BudgetExhausted, Inconclusive, NotApplicable, UsageError, VictimError, first_line
from leakmeter.evaluation.health import health
from leakmeter.evaluation.score import Reference
from leakmeter.evaluation.transfer import Transfer, examples_on, measure_transfer
from leakmeter.evaluation.utility import utility
from leakmeter.extraction.base import Extraction, extract, make_student
from leakmeter.files import write_atomic
from leakmeter.models.saved import save_network
from leakmeter.oracle.ledger import ATTACK, EVALUATION, Ledger, Prices
from leakmeter.oracle.limits import Attempt
from leakmeter.oracle.oracle import Oracle
from leakmeter.plan import Cell, Plan, PricePlan, TransferPlan
from leakmeter.progress import SILENT, Progress
from leakmeter.report.sheet import adversarial_png, write_sheet
from leakmeter.results import CellResult, Spending
from leakmeter.runs.run import Run
from leakmeter.seeds import derive
from leakmeter.tensors import to_safetensors
from leakmeter.victims.shared import Shared
from leakmeter.victims.spec import VictimSpec
from leakmeter.victims.victim import Victim

SHARED = "shared"
"""Beside the cells of an audit: answers that several of them ask for."""
_ASKED, _RESULT, _WHITE_BOX = "asked", "cell.json", "white-box.safetensors"
_TRANSFER_SEED = 0  # of the attack's random start; what varies over seeds is the copy


def run_cell(
    cell: Cell,
    plan: Plan,
    victim: Victim,
    truth: Reference | None,
    run: Run,
    lease: Attempt | None = None,
    progress: Progress = SILENT,
) -> CellResult:
    """Runs, or goes on with, one cell. A finished cell is read, not run again; a failing one says why."""
    if (known := finished(run.path)) is not None:
        return known
    run.say(f"start {cell.id} on {socket.gethostname()}, process {os.getpid()}")
    try:
        result = _run(cell, plan, victim, truth, run, lease, progress)
    except NotApplicable as error:
        result = CellResult(**cell.identity, status="skipped", error=str(error))
    except (Inconclusive, BudgetExhausted) as error:
        run.say(f"failed: {error}")
        return CellResult(**cell.identity, status="failed", error=str(error))
    write_atomic(run.path / _RESULT, result.model_dump_json(indent=2).encode())
    shutil.rmtree(run.path / _ASKED, ignore_errors=True)  # not before: until then a resumed run needs it
    run.say(f"{result.status} in {result.seconds:.1f} s")
    return result


def finished(folder: Path) -> CellResult | None:
    """The result of the cell in this folder, if it has one."""
    path = folder / _RESULT
    try:
        return CellResult.model_validate_json(path.read_bytes()) if path.exists() else None
    except ValueError as error:
        raise Inconclusive(f"the result {path} is damaged; delete it to redo that part") from error


def _run(
    cell: Cell,
    plan: Plan,
    victim: Victim,
    truth: Reference | None,
    run: Run,
    lease: Attempt | None,
    progress: Progress,
) -> CellResult:
    ledger, log, recorder = run.ledger(cell.budget, lease), run.answers(), Recorder(run.path / _ASKED)
    try:
        begun = ledger.last > 0
        asked = victim if victim.remote else Shared(victim, run.path.with_name(SHARED), reads=not begun)
        oracle = Oracle(
            defend(cell.defense, asked),
            cell.view,
            seed=derive(cell.seed, "server"),
            ledger=ledger,
            log=log,
            truth=victim,  # who judges asks anew: whether answers repeat is looked at there
            undo=undoing(cell.defense, cell.view),
            observer=recorder if cell.detectors else None,
        )
        if oracle.remaining == 0:  # only where a remote victim was asked by workers that died
            raise Inconclusive(f"all {cell.budget} queries of its budget were spent on answers that never arrived")
        copy = extract(
            cell.attack,
            oracle,
            seed=cell.seed,
            test=truth,
            stops=cell.stops,
            device=plan.device,
            progress=progress,
            checkpoints=run.checkpoint,
            **cell.options,
        )
        where, spec = run.path / "substitute.safetensors", oracle.spec
        save_network(copy.substitute, where, copy.student, spec.input_shape, spec.classes)
        if copy.queries is not None and copy.queries.dim() == 4:
            write_sheet(copy.queries, spec.shaped(tuple(copy.queries.shape[1:])), run.path / "queries.png")
        transfer, transfer_error = None, ""
        if cell.transfer is not None and truth is not None:
            transfer, transfer_error = _transfer(cell.transfer, copy, oracle, victim, truth, run, progress)
        return CellResult(
            **cell.identity,
            status="done",
            curve=copy.curve,
            findings=copy.findings,
            untrained=copy.untrained,
            class_scores=[] if truth is None else truth.class_scores(copy.substitute),
            **({} if truth is None else health(oracle, truth)),
            transfer=transfer,
            transfer_error=transfer_error,
            notes=copy.notes | _notes(cell, oracle, None if plan.data is None else truth, recorder),
            spending=_spending(ledger, plan.prices),  # last: whatever is asked above counts
            seconds=copy.seconds,
        )
    finally:
        ledger.close()
        log.close()
        recorder.close()


def _transfer(
    plan: TransferPlan,
    copy: Extraction,
    oracle: Oracle,
    victim: Victim,
    truth: Reference,
    run: Run,
    progress: Progress,
) -> tuple[Transfer | None, str]:
    """What the copy lets a thief do, or why that is not known: a finished extraction is never thrown away for it."""
    try:
        return _try_copy(plan, copy, oracle, victim, truth, run.path, progress), ""
    except VictimError:  # it may answer again: the cell fails, and a resumed audit goes on here
        raise
    except (Inconclusive, RuntimeError, ValueError) as error:
        run.say(f"transfer failed: {first_line(error)}")
        return None, first_line(error)


def _notes(cell: Cell, oracle: Oracle, truth: Reference | None, recorder: Recorder) -> dict[str, Any]:
    """What the owner learns beside the copy: what the defense costs honest users, when detectors would have fired.

    Inputs drawn by chance are no honest user's: without test data there is nothing to say of those.
    """
    notes: dict[str, Any] = {}
    if cell.utility and truth is not None:
        served = truth.answer if cell.defense == NONE else oracle.serve(truth.x)
        notes["utility"] = utility(truth, served).model_dump()
    if cell.detectors:
        honest = None if truth is None else (truth.x, truth.answer.labels)
        notes["detector"] = [detect(name, recorder, honest).model_dump() for name in cell.detectors]
    return notes


def _spending(ledger: Ledger, prices: PricePlan | None) -> Spending:
    attack = ledger.entry(ATTACK)
    money = None if prices is None else Prices(prices.query, prices.explanation).cost(attack)
    return Spending(**asdict(attack), evaluation=ledger.spent(EVALUATION), money=money)


def _try_copy(
    plan: TransferPlan,
    copy: Extraction,
    oracle: Oracle,
    victim: Victim,
    truth: Reference,
    folder: Path,
    progress: Progress,
) -> Transfer:
    """Makes adversarial examples on the copy, measures them on the victim, and draws some of them."""
    if truth.y is None:
        raise UsageError("transfer needs labelled test data; give labels or leave [transfer] out of the plan")
    x, y = truth.x[: plan.limit], truth.y[: plan.limit]
    untrained = None
    if copy.student is not None:
        untrained = make_student(copy.student, oracle.spec, derive(_TRANSFER_SEED, "untrained"))
    settings: dict[str, Any] = {
        "norm": plan.norm,
        "eps": plan.eps or _tenth(oracle.spec),
        "seed": _TRANSFER_SEED,
    }
    thief = measure_transfer(
        plan.attack,
        copy.substitute,
        oracle,
        x,
        y,
        untrained=untrained,
        white_box=_on_the_victim(victim, plan.attack, x, y, folder, settings),
        progress=progress,
        **settings,
    )
    if x.dim() == 4:
        write_atomic(folder / "adversarial.png", adversarial_png(x[thief.rows], thief.evasion, oracle.spec))
    return thief.transfer


def _on_the_victim(
    victim: Victim, attack: str, x: Tensor, y: Tensor, folder: Path, settings: dict[str, Any]
) -> Tensor | None:
    """Examples made on the victim itself, the same for all cells: the first to need them leaves them for the others."""
    kept = folder.parent / _WHITE_BOX
    with suppress(OSError, SafetensorError, KeyError):  # not there yet, or damaged: made again
        if (examples := safetensors.torch.load(kept.read_bytes())["examples"]).shape == x.shape:
            return examples.to(x)
    try:
        network = victim.white_box
    except UsageError:
        return None
    examples = examples_on(network, attack, victim.spec, x, y, **settings).examples
    write_atomic(kept, to_safetensors({"examples": examples}))
    return examples


def _tenth(spec: VictimSpec) -> float:
    if spec.width is None:
        raise UsageError("transfer on inputs without bounds needs a distance; set eps in [transfer]")
    return float(spec.width.min()) / 10
