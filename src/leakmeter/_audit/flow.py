"""The whole flow on one page: victim, cells, verdict, report."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from leakmeter._audit.cells import LEASES, TRUTH, CellWorker, has_shared_limits, place, run_cells
from leakmeter._audit.defaults import complete
from leakmeter._audit.estimate import Estimate, estimate
from leakmeter._audit.opening import load_test, open_victim, test_inputs
from leakmeter._audit.result import Audit as Audit
from leakmeter.certificates.smoothing import certify
from leakmeter.compute import check_device, computing, give_back
from leakmeter.data.dataset import Dataset
from leakmeter.display import as_progress
from leakmeter.errors import NotApplicable, Stopped, UsageError, VictimError
from leakmeter.evaluation.intervals import certified_share
from leakmeter.evaluation.score import reference
from leakmeter.executors import make_executor
from leakmeter.executors.inline import InlineExecutor
from leakmeter.oracle.ledger import recorded
from leakmeter.oracle.limits import Attempt, LimitsFile
from leakmeter.oracle.oracle import Oracle
from leakmeter.oracle.view import View
from leakmeter.plan import CertifyPlan, Plan, make_plan, read_plan
from leakmeter.progress import SILENT, Progress
from leakmeter.report.write import write_reports
from leakmeter.results import CellResult, Certified, Verdict, VictimFacts
from leakmeter.runs.run import LEDGER, Run, environment, fresh_path
from leakmeter.verdict import judge
from leakmeter.victims.remote.settings import RemoteSettings
from leakmeter.victims.spec import VictimSpec
from leakmeter.victims.victim import Victim

_RADII = 20  # points of the certified curve


def audit(
    plan: Plan | dict[str, Any] | str | Path,
    *,
    victim: Victim | None = None,
    out: str | Path = "runs",
    resume: str | Path | None = None,
    executor: str | None = None,
    progress: Progress | bool = True,
) -> Audit:
    """Audits a model as `plan` says and writes a run directory with its report.

    Args:
        plan: a `Plan`, its content as a dict, or the path of a TOML file.
        victim: the loaded model, where it cannot be loaded from `plan.victim.source`; its cells run in this process.
        out: the folder for run directories.
        resume: a run directory to go on with; its plan must be the same.
        executor: where cells run: `inline` (this process), `local` (one process a core), `local:N`, `ray` or
            `ray:ADDRESS`; None: `inline` for a single cell and for a `victim` handed in, else `local`.
        progress: what shows progress; True: bars in a terminal or a notebook, nothing elsewhere; False: nothing.
    """
    progress = as_progress(progress)
    if victim is not None and executor not in (None, "inline"):
        raise UsageError(f"a victim handed in is in this process only: expected executor 'inline', got '{executor}'")
    plan = _plan(plan)
    check_device(plan.device)
    with computing(plan.threads):
        return _audit(plan, victim, Path(out), resume, executor if victim is None else "inline", progress)


def preview(plan: Plan | dict[str, Any] | str | Path, executor: str | None = None) -> Estimate:
    """What an audit would take; of the model only a few random inputs are asked, and of one over HTTP nothing."""
    plan = _plan(plan)
    with computing(plan.threads):
        return estimate(*_opened(plan, None, _processes(executor)), _processes(executor))


def _opened(plan: Plan, victim: Victim | None, processes: int) -> tuple[Plan, Victim, Dataset | None]:
    """The complete plan, the model, and test data that fit it."""
    test = load_test(plan)
    victim = open_victim(plan, test) if victim is None else victim
    test = test_inputs(plan, test, victim)
    plan = complete(plan, victim, test, processes)
    for view in (*plan.views, *plan.explained_views):
        with suppress(NotApplicable):  # such a view is skipped, and the reason said
            View.parse(view).check(victim)
    return plan, victim, test


def _processes(executor: str | None) -> int:
    """How many cells run at once, as far as that is known here."""
    kind, _, number = (executor or "local").partition(":")
    return 1 if kind == "inline" else int(number) if number.isdecimal() else len(os.sched_getaffinity(0))


def _audit(
    plan: Plan,
    victim: Victim | None,
    out: Path,
    resume: str | Path | None,
    executor: str | None,
    progress: Progress,
) -> Audit:
    if resume and plan.pace is None:  # the effort was fitted to what the machine did then
        plan = plan.model_copy(update={"pace": Run.open(Path(resume)).plan.get("pace")})
    plan, victim, test = _opened(plan, victim, _processes(executor))
    content = plan.model_dump(mode="json")
    run = Run.resume(Path(resume), content) if resume else Run.enter(fresh_path(out, plan.name), content)
    progress.say(f"run: {run.path}")
    if progress is not SILENT:
        for line in estimate(plan, victim, test, _processes(executor)).lines():
            progress.say(line)
    where = make_executor(executor or ("inline" if len(list(plan.cells())) == 1 else "local"))
    try:
        with run.held():
            with _leases(plan, victim.remote, run) as leases:
                if test is not None:
                    with nullcontext() if plan.data is not None else suppress(VictimError):  # which the cells tell
                        _ask_truth(victim, test, run, leases)
                about, remote, here = describe(victim, test), victim.remote, None
                if isinstance(where, InlineExecutor):
                    here = CellWorker(plan, victim, test, progress)
                elif plan.certify is None:  # workers open both themselves, and the memory may be theirs
                    victim = test = None
                    give_back()
                cells = run_cells(plan, remote, run, where, here, progress)
            certified = None
            if plan.certify is not None and victim is not None:
                certified = _certified(plan.certify, victim, test, run, progress)
            return _concluded(plan, about, cells, certified, run, progress)
    except KeyboardInterrupt as error:
        raise Stopped(run.path) from error


def _concluded(
    plan: Plan, victim: VictimFacts, cells: list[CellResult], certified: Certified | None, run: Run, progress: Progress
) -> Audit:
    """The verdict over all cells, in a report."""
    if all(cell.status == "skipped" for cell in cells):
        raise UsageError(f"no attack could run: {cells[0].error}")
    scores = [cell.final.score for cell in cells if cell.final is not None and cell.final.score is not None]
    result = Audit(
        created=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        plan=plan.model_dump(mode="json"),
        environment=environment(),
        victim=victim.model_copy(update={"accuracy": scores[0].victim_accuracy if scores else None}),
        cells=cells,
        certified=certified,
        verdict=_said(judge(plan, cells), tuple(victim.notes)),
        folder=run.path,
    )
    write_reports(result, run.path)
    progress.say(f"report: {run.path / 'report.html'}")
    return result


def describe(victim: Victim, test: Dataset | None) -> VictimFacts:
    """The victim in the report."""
    spec = victim.spec
    return VictimFacts(
        name=spec.name,
        input_shape=spec.input_shape,
        classes=spec.classes,
        outputs=spec.outputs,
        test="" if test is None else test.name,
        test_size=0 if test is None else len(test),
        authorized_by=victim.authorized_by,
        class_names=list(spec.class_names or _names_in(test, spec)),
        notes=list(victim.notes),
    )


def _names_in(test: Dataset | None, spec: VictimSpec) -> tuple[str, ...]:
    """What the folders of the test pictures call the classes, if there are as many."""
    return test.class_names if test is not None and len(test.class_names) == spec.classes else ()


def _said(verdict: Verdict, notes: tuple[str, ...]) -> Verdict:
    """The verdict, with what was assumed of the victim."""
    return verdict.model_copy(update={"sentences": [*verdict.sentences, *notes]})


def _plan(plan: Plan | dict[str, Any] | str | Path) -> Plan:
    if isinstance(plan, Plan):
        return plan
    return make_plan(plan if isinstance(plan, dict) else read_plan(Path(plan)))


@contextmanager
def _leases(plan: Plan, remote: bool, run: Run) -> Iterator[LimitsFile | None]:
    """What all cells may ask together; None where nothing but their own budgets limits them."""
    if not has_shared_limits(plan, remote):
        yield None
        return
    rps = (plan.victim.remote or RemoteSettings()).rps
    with closing(LimitsFile(run.path / LEASES, total=plan.total, rps=rps)) as leases:
        jobs = {"audit": run.path} | {cell.id: run.path / place(cell) for cell in plan.cells()}
        for job, folder in jobs.items():
            for account, rows in recorded(folder / LEDGER).items():
                leases.catch_up(job, account, rows)
        yield leases


def _ask_truth(victim: Victim, test: Dataset, run: Run, leases: LimitsFile | None) -> None:
    """The victim's answers to the test inputs: asked once for all cells, and kept with the run."""
    ledger, log = run.ledger(None, None if leases is None else Attempt(leases, "audit")), run.answers()
    try:
        truth = reference(Oracle(victim, "labels", ledger=ledger, log=log), test)
    finally:
        ledger.close()
        log.close()
    truth.save(run.path / TRUTH)


def _certified(
    plan: CertifyPlan, victim: Victim, test: Dataset | None, run: Run, progress: Progress = SILENT
) -> Certified:
    """Certifies some test inputs of the owner's model; the votes stay in the run, so a killed audit goes on."""
    if test is None:
        raise UsageError("certifying needs labelled test data; give [data], or leave [certify] out of the plan")
    x, y = (column[: plan.limit] for column in test.labelled())
    found = certify(
        victim.white_box,
        x,
        sigma=plan.sigma,
        n=plan.n,
        alpha=plan.alpha,
        bound=plan.bound,
        path=run.path / "votes",
        progress=progress,
    )
    radii = [float(found.radii.max()) * k / _RADII for k in range(_RADII + 1)]
    held = [int(found.holds(y, radius).sum()) for radius in radii]
    return Certified(
        label=f"sigma {plan.sigma:g}, {plan.bound} bound",
        n=len(y),
        alpha=plan.alpha,
        points=[(radius, k / len(y)) for radius, k in zip(radii, held, strict=True)],
        intervals=[certified_share(k, len(y), plan.alpha) for k in held],
    )
