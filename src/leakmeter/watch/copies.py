"""How good a copy some answers buy: the best of several thieves', scored against the victim, kept in the state."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor

from leakmeter import __version__
from leakmeter.detectors import LIMIT, prepared
from leakmeter.evaluation.intervals import CONFIDENCE, exact
from leakmeter.evaluation.score import Reference
from leakmeter.extraction.given import copies_from
from leakmeter.seeds import derive
from leakmeter.victims.spec import VictimSpec
from leakmeter.watch.record import Fired, Point
from leakmeter.watch.rows import Rows
from leakmeter.watch.settings import LogSettings
from leakmeter.watch.state import State

_GROWTH = (0.25, 0.5)  # of the queries, at which the copy is measured too
_NEAR = 0.2  # below the line from which growth is worth the time


@dataclass(frozen=True, eq=False)
class Bench:
    """All that measuring needs beside the rows."""

    state: State
    spec: VictimSpec
    truth: Reference
    log: LogSettings

    @property
    def key(self) -> str:
        """Of what a measurement depends on beside the rows."""
        parts = [self.truth.x.contiguous().numpy().tobytes(), self.truth.answer.labels.numpy().tobytes()]
        digest = hashlib.sha256(b"".join(parts)).hexdigest()[:16]
        return f"{__version__}/{digest}/{self.log.effort:g}/{self.log.seed}/{','.join(self.log.students or ())}"


def grown(bench: Bench, key: str, rows: Rows, line: float) -> list[Point]:
    """The copy from all rows, and before it those from fewer where the copy comes near the line."""
    last = measured(bench, key, rows, len(rows))
    stops = [round(share * len(rows)) for share in _GROWTH] if last.fidelity >= line - _NEAR else []
    return [*(measured(bench, key, rows, stop) for stop in stops if stop > 1), last]


def measured(bench: Bench, key: str, rows: Rows, n: int) -> Point:
    """The best copy that the first `n` rows buy, made once."""
    name = f"copy/{key}/{rows.digest(n)}"
    found = bench.state.kept(name)
    if found is None:
        seed, log = derive(bench.log.seed, "watch", rows.digest(n)), bench.log
        copies = copies_from(rows.first(n), bench.spec, seed, effort=log.effort, students=log.students)
        rates = {name: bench.truth.score(copy).fidelity for name, copy in copies.items()}
        found = best_of(n, rates, len(bench.truth.x)).model_dump(mode="json")
        bench.state.keep(name, found)
    return Point.model_validate(found)


def best_of(queries: int, rates: dict[str, float], inputs: int) -> Point:
    """The best copy; its interval holds for the best of all thieves, since those of all of them hold together."""
    best, level = max(rates.values()), 1 - (1 - CONFIDENCE) / len(rates)
    ends = exact(round(best * inputs), inputs, level).model_copy(update={"confidence": CONFIDENCE})
    return Point(queries=queries, fidelity=best, interval=ends, thieves=rates)


def fired(bench: Bench, rows: Rows) -> list[Fired]:
    """What each detector says of the rows, in their order."""
    found = []
    for name in bench.log.detectors:
        key = f"detector/{name}/{bench.key}/{rows.digest(min(LIMIT, len(rows)))}"
        kept = bench.state.kept(key)
        if kept is None:
            kept = _watched(name, rows, (bench.truth.x, bench.truth.answer.labels)).model_dump(mode="json")
            bench.state.keep(key, kept)
        found.append(Fired.model_validate(kept))
    return found


def _watched(name: str, rows: Rows, honest: tuple[Tensor, Tensor]) -> Fired:
    """Test inputs are the honest queries it may learn from: no client of the log is among them."""
    detector = prepared(name, honest)
    given = rows.first(LIMIT)
    detector.observe(given.x, given.answer.labels)
    return Fired(detector=name, fired_at=detector.fired_at, queries=len(given.x))


def coverage(test: Tensor, asked: Tensor) -> float:
    """The share of test inputs nearer to some query than half of the test inputs are to their nearest neighbour."""
    x, queries = test.flatten(1).double(), asked.flatten(1).double()
    if len(x) < 2 or not len(queries):
        return 0.0
    among = torch.cdist(x, x).fill_diagonal_(torch.inf).amin(1)
    return float((torch.cdist(x, queries).amin(1) <= among.median()).double().mean())
