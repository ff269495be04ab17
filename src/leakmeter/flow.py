"""The whole flow on one page: victim, cells, verdict, report."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from leakmeter.cells import run_cell
from leakmeter.certificates.audited import certified
from leakmeter.compute import computing
from leakmeter.data.dataset import Dataset
from leakmeter.errors import UsageError
from leakmeter.evaluation.score import Reference, reference
from leakmeter.executors import make_executor
from leakmeter.opening import load_test, open_victim
from leakmeter.oracle.oracle import Oracle
from leakmeter.plan import AttackPlan, Plan, TransferPlan, make_plan, read_plan
from leakmeter.progress import SILENT, Progress
from leakmeter.report.write import write_reports
from leakmeter.results import AuditResult, CellResult, VictimFacts
from leakmeter.runs.run import Run, environment, fresh_path
from leakmeter.verdict import judge
from leakmeter.victims.victim import Victim
from leakmeter.worker import TRUTH, settings, work_here


def audit(
    plan: Plan | dict[str, Any] | str | Path,
    *,
    victim: Victim | None = None,
    out: str | Path = "runs",
    resume: str | Path | None = None,
    executor: str = "local",
    progress: Progress = SILENT,
) -> AuditResult:
    """Audits a model as `plan` says and writes a run directory with its report.

    Args:
        plan: a `Plan`, its content as a dict, or the path of a TOML file.
        victim: the loaded model, where it cannot be loaded from `plan.victim.source`; its cells run in this process,
            as do those of a remote victim, whose limits hold for one client.
        out: the folder for run directories.
        resume: a run directory to go on with; its plan must be the same.
        executor: where cells run: `local` (one process a core) or `local:N`.
        progress: what shows progress.
    """
    plan = _plan(plan)
    with computing(plan.threads):
        return _audit(plan, victim, Path(out), resume, executor, progress)


def _audit(
    plan: Plan, victim: Victim | None, out: Path, resume: str | Path | None, executor: str, progress: Progress
) -> AuditResult:
    test = load_test(plan)
    given, victim = victim, victim or open_victim(plan, test)
    plan = complete(plan, victim, test)
    content = plan.model_dump(mode="json")
    run = Run.resume(Path(resume), content) if resume else Run.enter(fresh_path(out, plan.name), content)
    with run.held():
        if len(only := list(plan.cells())) == 1:  # a single extraction needs no folder of cells
            cells = [run_cell(only[0], victim, test, run, **settings(plan), progress=progress)]
        else:
            truth = None if test is None else _truth(victim, test, run)
            here = victim if given is not None or victim.remote else None
            cells = _run_cells(plan, here, truth, run, executor, progress)
        if all(cell.status == "skipped" for cell in cells):
            raise UsageError(f"no attack could run: {cells[0].error}")
        result = AuditResult(
            created=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
            plan=content,
            environment=environment(),
            victim=describe(victim, test, cells),
            cells=cells,
            certified=None if plan.certify is None else certified(plan.certify, victim, test, run, progress),
            verdict=judge(plan, cells),
        )
        write_reports(result, run.path)
    progress.say(f"report: {run.path / 'report.html'}")
    return result


def complete(plan: Plan, victim: Victim, test: Dataset | None) -> Plan:
    """Fills in what a short plan leaves open: the attacks that suit this victim, and the views it can give."""
    if test is not None and test.input_shape != victim.spec.input_shape:
        raise UsageError(f"expected test inputs of shape {victim.spec.input_shape}, got {test.input_shape}")
    changes: dict[str, Any] = {}
    if victim.spec.outputs == "labels" and plan.views == Plan.model_fields["views"].default:
        changes["views"] = ("labels",)
    if not plan.attacks:
        if plan.transfer is None and test is not None and test.y is not None and victim.spec.width is not None:
            changes["transfer"] = TransferPlan()
        changes["attacks"] = (AttackPlan(name="procedural"), AttackPlan(name="surrogate"), *_real_pool(plan))
    return plan.model_copy(update=changes)


def _real_pool(plan: Plan) -> tuple[AttackPlan, ...]:
    """The control arm that shows what having data is worth: the same number of real inputs."""
    if plan.data is None or plan.data.split == "train":
        return ()
    return (AttackPlan(name="surrogate", control=True, pool=plan.data.name, data_dir=plan.data.dir),)


def describe(victim: Victim, test: Dataset | None, cells: list[CellResult]) -> VictimFacts:
    """The victim in the report."""
    spec = victim.spec
    scores = [cell.final.score for cell in cells if cell.final is not None and cell.final.score is not None]
    return VictimFacts(
        name=spec.name,
        input_shape=spec.input_shape,
        classes=spec.classes,
        outputs=spec.outputs,
        accuracy=scores[0].victim_accuracy if scores else None,
        test="" if test is None else test.name,
        test_size=0 if test is None else len(test),
        authorized_by=victim.authorized_by,
    )


def _plan(plan: Plan | dict[str, Any] | str | Path) -> Plan:
    if isinstance(plan, Plan):
        return plan
    return make_plan(plan if isinstance(plan, dict) else read_plan(Path(plan)))


def _truth(victim: Victim, test: Dataset, run: Run) -> Reference:
    """The victim's answers to the test inputs: asked once for all cells, and kept with the run."""
    ledger, log = run.ledger(None), run.answers()
    try:
        truth = reference(Oracle(victim, "labels", ledger=ledger, log=log), test)
    finally:
        ledger.close()
        log.close()
    truth.save(run.path / TRUTH)
    return truth


def _run_cells(
    plan: Plan, victim: Victim | None, truth: Reference | None, run: Run, executor: str, progress: Progress
) -> list[CellResult]:
    """Every cell, in the order of the plan whatever order they finish in."""
    cells, results = list(plan.cells()), dict[str, CellResult]()
    with progress.task("cells", len(cells)) as task:

        def done(result: CellResult) -> None:
            results[result.id] = result
            task.advance(note=f"{result.id} {result.status}")

        if victim is not None:
            for cell in cells:
                done(work_here(plan, cell, victim, truth, run.path, progress))
        else:
            make_executor(executor).run(plan, cells, run.path, done)
    return [results[cell.id] for cell in cells]
