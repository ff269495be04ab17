"""What an audit will take, before the first query: cells, queries, money and minutes."""

from __future__ import annotations

import math
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

import torch

from leakmeter.data.dataset import Dataset
from leakmeter.errors import LeakmeterError
from leakmeter.extraction.base import make_attack
from leakmeter.extraction.pace import pace
from leakmeter.oracle.view import View
from leakmeter.plan import Plan
from leakmeter.victims.victim import Question, Victim

_CALIBRATION = 2.0  # seconds at most
_SILENT = 2.0  # seconds that may pass without a line
_PATIENCE = 10.0  # seconds; a model that takes longer for its first answers is not timed
_DRAWN = (
    "There are no test data (--data): copies are scored on inputs drawn by chance, which says less of real ones, and a "
    "policy stays undecided."
)
_NO_DATA = "There are no test data (--data), and a total limits what may be asked: no copy will be scored."


@dataclass(frozen=True)
class Estimate:
    """The size of an audit; of times only what can be told beforehand."""

    cells: int
    queries: int
    """The most that all attacks together ask; scoring comes on top."""
    scoring: int
    money: float | None
    currency: str
    answering: float | None
    """Seconds the victim needs for its answers; None: not known of a server without asking it."""
    learning: float
    """Seconds of the attacks' own computing, of those that can tell."""
    untold: tuple[str, ...]
    """Attacks that cannot."""
    processes: int
    before: float = 0.0
    """Seconds until the test inputs are answered, which is before the first cell."""
    notes: tuple[str, ...] = ()
    """What was assumed of the victim, and how it is asked."""

    @property
    def seconds(self) -> float:
        """Of what can be told, with as many cells at once as there are processes."""
        return self.before + ((self.answering or 0) + self.learning) / min(self.processes, max(1, self.cells))

    def lines(self) -> list[str]:
        """For people."""
        price = "" if self.money is None else f", at most {self.money:,.2f} {self.currency}"
        cells = f"{self.cells} cell{'' if self.cells == 1 else 's'}"
        shown = f"{cells}, at most {self.queries:,} queries{price}, and {self.scoring:,} to score with"
        beside = []
        if self.answering is None:
            beside.append("the server's own time")
        if self.untold:
            beside.append(f"the learning of {', '.join(self.untold)}")
        more = f", besides {' and '.join(beside)}" if beside else ""
        told = (
            f"time: about {_duration(self.seconds)} on {self.processes} core{'' if self.processes == 1 else 's'}{more}"
        )
        first = [f"first the test inputs are answered: {_duration(self.before)}"] if self.before > _SILENT else []
        return [f"plan: {shown}", told, *(f"note: {note}" for note in self.notes), *first]


def estimate(plan: Plan, victim: Victim, test: Dataset | None, processes: int) -> Estimate:
    """The size of a complete plan; a victim in this process answers random inputs for up to two seconds."""
    cells = list(plan.cells())
    queries = sum(cell.budget for cell in cells)
    queries = queries if plan.total is None else min(queries, plan.total)
    learning, untold = 0.0, []
    for cell in cells:
        seconds = make_attack(cell.attack, cell.options).expected_seconds(victim.spec, cell.stops)
        learning += seconds or 0.0
        if seconds is None and cell.attack not in untold:
            untold.append(cell.attack)
    if learning:
        learning *= plan.pace or pace(victim.spec, plan.device, min(processes, len(cells)))
    rate = answers_a_second(victim, plan)
    explained = sum(cell.budget for cell in cells if View.parse(cell.view).explanation is not None)
    scoring = 0 if test is None else len(test)
    return Estimate(
        cells=len(cells),
        queries=queries,
        scoring=scoring,
        money=None if plan.prices is None else queries * plan.prices.query + explained * plan.prices.explanation,
        currency="" if plan.prices is None else plan.prices.currency,
        answering=None if rate is None else queries / rate,
        learning=learning,
        untold=tuple(untold),
        processes=processes,
        before=0.0 if rate is None else scoring / rate,
        notes=(*victim.notes, *(() if plan.data is not None else (_NO_DATA if test is None else _DRAWN,))),
    )


def answers_a_second(victim: Victim, plan: Plan) -> float | None:
    """How many rows are answered a second; None of a server that sets no pace: asking it would cost."""
    if victim.remote:
        pace = plan.victim.remote and plan.victim.remote.rps
        return None if not pace else pace * (plan.victim.remote.rows or 1 if plan.victim.remote else 1)
    found: list[float] = []
    # In a thread that is not waited for: a model that hangs or fails is the audit's to tell, with a report.
    asking = threading.Thread(target=lambda: found.append(_measured(victim)), daemon=True)
    asking.start()
    asking.join(_PATIENCE)
    return found[0] if found else None


def _measured(victim: Victim) -> float:
    draws, rows, start = torch.Generator().manual_seed(0), 1, time.monotonic()
    while True:
        x = victim.spec.sample(rows, draws)
        before = time.monotonic()
        with torch.no_grad(), suppress(LeakmeterError):
            victim.respond(x, Question(torch.Generator()))
        took = time.monotonic() - before
        if time.monotonic() - start > _CALIBRATION / 4 or rows >= victim.batch:
            return rows / max(took, 1e-6)  # the largest batch: that is how it will be asked
        rows = min(rows * 4, victim.batch)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{math.ceil(seconds)} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
