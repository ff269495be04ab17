"""A watch on one page: read the log, rank by counting, train on those who matter, judge, write it down."""

from __future__ import annotations

from contextlib import closing, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from leakmeter._audit.flow import describe
from leakmeter._audit.opening import fit_test, load_test, open_victim
from leakmeter.compute import computing
from leakmeter.data.catalogue import NAMES
from leakmeter.data.dataset import Dataset
from leakmeter.detectors.likeness import Cloud, Usual, Waves
from leakmeter.display import as_progress
from leakmeter.errors import UsageError
from leakmeter.evaluation.score import Reference, reference
from leakmeter.plan import AttackPlan, Plan
from leakmeter.progress import Progress
from leakmeter.runs.run import Run, environment, fresh_path
from leakmeter.seeds import stream
from leakmeter.settings import checked
from leakmeter.shown import shown, shown_in
from leakmeter.victims.victim import Victim
from leakmeter.watch import ruling
from leakmeter.watch.coalitions import Coalition, alike_coalitions, told_coalitions
from leakmeter.watch.copies import Bench, coverage, fired, grown
from leakmeter.watch.databases import exported, is_database
from leakmeter.watch.forecast import forecast
from leakmeter.watch.others import others_of, unnamed
from leakmeter.watch.record import ClientCopy, Others, WatchResult
from leakmeter.watch.report import write_watch
from leakmeter.watch.rows import Rows, rows_of
from leakmeter.watch.settings import LogSettings
from leakmeter.watch.signals import Signals, count_clients, ranked_clients, together
from leakmeter.watch.source import log_files
from leakmeter.watch.state import Reading, State

_CANDIDATES = 10  # times as many clients as are trained on are looked at for likeness
_SAMPLE, _NUMBERS = 300, 1 << 24  # queries of each that are, and the most numbers these may hold together
_TEST, _USUAL = 500, 2000  # test inputs that coverage is measured on, and that stand for what honest clients ask


def watch(
    log: str | Path,
    plan: Plan,
    *,
    out: str | Path = "runs",
    state: str | Path | None = None,
    progress: Progress | bool = True,
) -> WatchResult:
    """Reads an access log and says who holds how good a copy; continues from its state.

    Args:
        log: a file or folder of CSV, JSON lines or Parquet, an SQLite file, or the address of a PostgreSQL database.
        plan: the victim, the test data, the policy, and `[log]`.
        out: the folder for run directories.
        state: the folder that remembers; None: `watch-state` in `out`.
        progress: what shows progress.
    """
    if "name" not in plan.model_fields_set:
        plan = plan.model_copy(update={"name": "watch"})
    settings = checked(LogSettings, plan.log, "[log] of the plan", "key")
    if plan.data is None:
        raise UsageError("a watch needs test data to score copies on; give --data")
    with computing(plan.threads):
        test = load_test(_whole_file(plan))
        victim = open_victim(plan, test)
        assert test is not None
        test = fit_test(test, victim)
        folder = Path(out) / "watch-state" if state is None else Path(state)
        with closing(State(folder)) as opened:
            content = plan.model_dump(mode="json")
            opened.belongs_to({"victim": plan.victim.source, "input shape": list(victim.spec.input_shape)})
            reading = read_log(opened, str(log), settings, victim)
            seen = _Seen(opened, settings, victim, test, _home(str(log)), reading, as_progress(progress))
            result = seen.judged(plan, content)
        run = Run.enter(fresh_path(Path(out), plan.name), content)
        result = result.model_copy(update={"folder": run.path})
        write_watch(result, run.path)
    return result


def _whole_file(plan: Plan) -> Plan:
    """Nobody here learns from a part of the owner's file, as an audit's control does: all of it is for scoring."""
    if plan.data is None or plan.data.name in NAMES:
        return plan
    return plan.model_copy(update={"attacks": (AttackPlan(name="auto"),)})


def read_log(state: State, log: str, settings: LogSettings, victim: Victim) -> Reading:
    """Takes in what is new of the log."""
    if settings.columns and len(settings.columns) != victim.spec.features:
        raise UsageError(
            f"expected {victim.spec.features} columns in [log], one for each input of the model, got "
            f"{len(settings.columns)}"
        )
    table = is_database(log)
    with exported(log, settings.table, state.folder) if table else nullcontext(Path(log)) as place:
        files = (
            [(f"{log.rpartition('@')[2]} {settings.table}", place)]
            if table
            else [(_name(path, place), path) for path in log_files(place)]
        )
        reading = state.read(files, settings, victim.spec, always=table)
    if reading.lines and reading.broken == reading.lines:
        raise UsageError(
            f"none of the {reading.lines:,} lines of the log has a client, a time, an input of {victim.spec.features} "
            f"numbers and an answer for {max(2, victim.spec.classes)} classes; say in [log] what its columns are called"
        )
    if not reading.lines and reading.unreadable:
        raise UsageError(f"cannot read the log: {reading.unreadable[0]}")
    return reading


def _name(path: Path, log: Path) -> str:
    return path.name if path == log else str(path.relative_to(log))


def _home(log: str) -> Path:
    """The folder that array files must lie in."""
    path = Path(log)
    return path if path.is_dir() else path.parent


@dataclass(frozen=True, eq=False)
class _Seen:
    """A log that was read, about to be judged."""

    state: State
    log: LogSettings
    victim: Victim
    test: Dataset
    home: Path
    reading: Reading
    progress: Progress

    def judged(self, plan: Plan, content: dict[str, Any]) -> WatchResult:
        truth = reference(self.victim, self.test)
        line = ruling.line_of(plan.policy, self.log.line)
        seen, honest = count_clients(self.state, self.log.honest)
        ranked, enough = ranked_clients(self.state, self.victim.spec, self.log.honest, self.log.least, self._most)
        small = honest - sum(each.honest for each in ranked) if enough <= self._most else 0
        chosen = _chosen(ranked, self.log.train)
        alike = self._alike([each for each in ranked if not each.honest], truth)
        control = self._alike([each for each in ranked if each.honest], truth)
        clients, others = self._copies(chosen, self._coalitions(alike), truth, line)
        lower = enough - len(chosen)
        rates = ruling.false_alarms(clients, small, line)
        if rates:
            rates.append(ruling.falsely_alike(control, sum(each.honest for each in ranked) + small))
        counts = truth.answer.labels.bincount(minlength=2)
        constant = float(counts.max() / counts.sum())
        checks = ruling.checked(self.reading, seen, clients, lower, line, constant)
        return WatchResult(
            created=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
            plan=shown_in(content),
            environment=environment(),
            victim=describe(self.victim, self.test),
            reading=self.reading,
            line=line,
            seen=seen,
            honest=honest,
            too_few=seen - enough,
            ranked_lower=lower,
            constant=constant,
            clients=clients,
            others=others,
            false_alarms=rates,
            verdict=ruling.judged(plan.policy, line, clients, rates, checks, others),
        )

    @property
    def _most(self) -> int:
        return _CANDIDATES * self.log.train

    def _coalitions(self, alike: list[Coalition]) -> list[Coalition]:
        told = told_coalitions(self.state, self.log.honest, self.log.least, self.log.train)
        known = {coalition.clients for coalition in told}
        return [*told, *(each for each in alike if each.clients not in known)][: self.log.train]

    def _alike(self, clients: list[Signals], truth: Reference) -> list[Coalition]:
        """Those of some clients who ask alike, and unlike honest ones."""
        size = max(20, min(_SAMPLE, _NUMBERS // (self.victim.spec.features * max(1, len(clients)))))
        waves, some = Waves.fitted(self.test.x, self.log.seed), self._some(_USUAL)
        usual = Usual.of(waves(truth.x[some]), truth.answer.labels[some])
        given = {each.client: self._rows([each.client], size, sample=True).given for each in clients}
        return alike_coalitions(
            {name: (Cloud.of(waves(one.x)), usual.like(one.answer.labels)) for name, one in given.items()}
        )

    def _some(self, n: int) -> Tensor:
        """Where some test inputs stand."""
        return torch.randperm(len(self.test), generator=stream(self.log.seed, "some"))[:n]

    def _rows(self, clients: list[str], most: int, sample: bool = False, share: int = 1) -> Rows:
        return rows_of(self.state, clients, self.victim.spec, self.home, most, sample, share)

    def _copies(
        self, chosen: list[Signals], coalitions: list[Coalition], truth: Reference, line: float
    ) -> tuple[list[ClientCopy], list[Others]]:
        """What each of them could have, the best copy first; and what those could whom no alarm names."""
        bench = Bench(self.state, self.victim.spec, truth, self.log)
        some = self.test.x[self._some(_TEST)]
        jobs = [(each, Coalition((each.client,), "client", each.client)) for each in chosen]
        jobs += [(together(self.state, self.victim.spec, each.clients), each) for each in coalitions]
        found, named = [], set[str]()
        with self.progress.task("copies", len(jobs) + 1) as task:
            for signals, who in jobs:
                copy = self._copy(bench, signals, who, line, some)
                found += [] if copy is None else [copy]
                named |= set(who.clients) if copy is not None and (copy.alarm or copy.soon) else set()
                task.advance(note=_written(who.label))
            left = unnamed(self.state, self.log.honest, named)
            others = others_of(bench, left, lambda who, share: self._rows(who, self.log.most, sample=True, share=share))
            task.advance(note="all others")
        return sorted(found, key=lambda each: (-each.fidelity, each.client)), others

    def _copy(self, bench: Bench, signals: Signals, who: Coalition, line: float, test: Tensor) -> ClientCopy | None:
        rows = self._rows(list(who.clients), self.log.most, sample=True)
        if len(rows) < 2:
            return None
        points = grown(bench, bench.key, rows, line)
        times, scale = rows.times.numpy(), max(1.0, signals.different / len(rows))
        ahead = forecast([(p.queries, p.fidelity) for p in points], len(self.test), times, line, self.log.seed)
        return ClientCopy(
            client=_written(who.label),
            clients=() if who.by == "client" else tuple(map(_written, who.clients)),
            by=who.by,
            honest=signals.honest,
            queries=signals.queries,
            different=len(rows) + rows.lost if len(rows) + rows.lost < self.log.most else signals.different,
            trained_on=len(rows),
            lost=rows.lost,
            novelty=signals.novelty,
            balance=signals.balance,
            coverage=coverage(test, rows.given.x[:_TEST]),
            first=_moment(signals.first),
            last=_moment(signals.last),
            view=str(rows.given.answer.view),
            fidelity=points[-1].fidelity,
            interval=points[-1].interval,
            thieves=points[-1].thieves,
            growth=[p.model_copy(update={"queries": round(p.queries * scale)}) for p in points],
            forecast=ahead,
            detectors=fired(bench, rows),
            alarm=points[-1].fidelity >= line,
            soon=ahead is not None and ahead.soon,
        )


def _chosen(ranked: list[Signals], train: int) -> list[Signals]:
    """Those to train on: as many of the declared honest, who are the control, as of the others."""
    honest = [each for each in ranked if each.honest][:train]
    return [*[each for each in ranked if not each.honest][:train], *honest]


def _written(name: str) -> str:
    """A client's name on one line, so that no part of it can be taken for a line of the report."""
    return shown(name).replace("\n", "\\n").replace("\t", "\\t")


def _moment(seconds: float) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
    except (ValueError, OverflowError, OSError):
        return f"{seconds:.0f} s"
