"""The whole flow on one page: victim, cells, verdict, report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from leakmeter._audit.cell import finished, run_cell
from leakmeter._audit.certified import certified
from leakmeter._audit.grid import Grid
from leakmeter._audit.opening import load_test, open_victim
from leakmeter._audit.worker import TRUTH, Common, failed, place, settings, work, work_here
from leakmeter.compute import computing
from leakmeter.data.dataset import Dataset
from leakmeter.errors import UsageError
from leakmeter.evaluation.score import Reference, reference
from leakmeter.executors import make_executor
from leakmeter.executors.job import Batch, Executor, Job
from leakmeter.oracle.limits import Lease, Leases
from leakmeter.oracle.oracle import Oracle
from leakmeter.plan import AttackPlan, Plan, TransferPlan, make_plan, read_plan
from leakmeter.progress import SILENT, Progress
from leakmeter.report.html import summary_html
from leakmeter.report.write import write_reports
from leakmeter.results import AuditResult, CellResult, VictimFacts
from leakmeter.runs.run import Run, environment, fresh_path
from leakmeter.verdict import judge
from leakmeter.victims.remote.settings import RemoteSettings
from leakmeter.victims.remote.victim import is_remote
from leakmeter.victims.victim import Victim

_LEASES = "leases.sqlite"


class Audit(AuditResult):
    """A result that a notebook shows as the summary of its report."""

    def _repr_html_(self) -> str:
        return summary_html(self)


def audit(
    plan: Plan | dict[str, Any] | str | Path,
    *,
    victim: Victim | None = None,
    out: str | Path = "runs",
    resume: str | Path | None = None,
    executor: str = "local",
    progress: Progress = SILENT,
) -> Audit:
    """Audits a model as `plan` says and writes a run directory with its report.

    Args:
        plan: a `Plan`, its content as a dict, or the path of a TOML file.
        victim: the loaded model, where it cannot be loaded from `plan.victim.source`; its cells run in this process.
        out: the folder for run directories.
        resume: a run directory to go on with; its plan must be the same.
        executor: where cells run: `local` (one process a core), `local:N`, `ray` or `ray:ADDRESS`.
        progress: what shows progress.
    """
    plan = _plan(plan)
    with computing(plan.threads):
        return _audit(plan, victim, Path(out), resume, executor, progress)


def _audit(
    plan: Plan, victim: Victim | None, out: Path, resume: str | Path | None, executor: str, progress: Progress
) -> Audit:
    test = load_test(plan)
    given, victim = victim, victim or open_victim(plan, test)
    plan = complete(plan, victim, test)
    content = plan.model_dump(mode="json")
    run = Run.resume(Path(resume), content) if resume else Run.enter(fresh_path(out, plan.name), content)
    with run.held(), _leases(plan, victim, run) as leases:
        if len(only := list(plan.cells())) == 1:  # a single extraction needs no folder of cells
            lease = None if leases is None else Lease(leases, only[0].id)
            cells = [run_cell(only[0], victim, test, run, **settings(plan), lease=lease, progress=progress)]
        else:
            truth = None if test is None else _truth(victim, test, run, leases)
            if given is not None:
                cells = _run_here(plan, victim, truth, run, leases, progress)
            else:
                cells = _run_cells(plan, run, leases, make_executor(executor), progress)
        if all(cell.status == "skipped" for cell in cells):
            raise UsageError(f"no attack could run: {cells[0].error}")
        result = Audit(
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


@contextmanager
def _leases(plan: Plan, victim: Victim, run: Run) -> Iterator[Leases | None]:
    """What all cells may ask together; None where nothing but their own budgets limits them."""
    if not victim.remote and plan.total is None:
        yield None
        return
    rps = (plan.victim.remote or RemoteSettings()).rps
    with closing(Leases(run.path / _LEASES, total=plan.total, rps=rps)) as leases:
        yield leases


def _truth(victim: Victim, test: Dataset, run: Run, leases: Leases | None) -> Reference:
    """The victim's answers to the test inputs: asked once for all cells, and kept with the run."""
    ledger, log = run.ledger(None, None if leases is None else Lease(leases, "audit")), run.answers()
    try:
        truth = reference(Oracle(victim, "labels", ledger=ledger, log=log), test)
    finally:
        ledger.close()
        log.close()
    truth.save(run.path / TRUTH)
    return truth


def _run_here(
    plan: Plan, victim: Victim, truth: Reference | None, run: Run, leases: Leases | None, progress: Progress
) -> list[CellResult]:
    cells, results = list(plan.cells()), []
    with progress.task("cells", len(cells)) as task:
        for cell in cells:
            results.append(work_here(plan, cell, victim, truth, run.path, leases, progress))
            task.advance(note=f"{cell.id} {results[-1].status}")
    return results


def _run_cells(plan: Plan, run: Run, leases: Leases | None, executor: Executor, progress: Progress) -> list[CellResult]:
    """Every cell, in the order of the plan whatever order they finish in; finished ones are not run again."""
    cells = {place(cell): cell for cell in plan.cells()}
    results = {at: known for at in cells if (known := finished(run.path / at)) is not None}
    left = [at for at in cells if at not in results]
    if results:
        progress.say(f"{len(results)} of {len(cells)} cells are finished already")

    def ended(job: Job, text: str) -> tuple[int, str]:
        result = results[job.place] = CellResult.model_validate_json(text)
        return result.spending.queries if result.spending else 0, result.error if result.status == "failed" else ""

    def given_up(job: Job, why: str) -> None:
        results[job.place] = failed(cells[job.place], why)

    if left:
        with progress.task("cells", len(left)) as task:
            jobs = (Job(at, cells[at].model_dump_json()) for at in left)
            executor.run(_batch(plan, run, leases, len(left)), jobs, Grid(progress, task, ended, given_up))
    return [results[at] for at in cells]


def _batch(plan: Plan, run: Run, leases: Leases | None, cells: int) -> Batch:
    """How cells run. Those of a remote victim divide its connections among them: no more at once than there are."""
    at_once = None
    if is_remote(plan.victim.source):
        connections = (plan.victim.remote or RemoteSettings()).concurrency
        at_once = min(cells, connections)
    common = Common(plan=plan, connections=1 if at_once is None else connections // at_once)
    return Batch(
        work,
        common.model_dump_json(),
        run.path,
        needs=() if plan.data is None else (TRUTH,),
        cpus=plan.threads,
        gpus=int(plan.device.startswith("cuda")),
        at_once=at_once,
        leases=None if leases is None else run.path / _LEASES,
    )
