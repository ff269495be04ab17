"""`results.json` of a watch: everything its report is built from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from leakmeter.evaluation.intervals import Interval
from leakmeter.results import Verdict, VictimFacts
from leakmeter.settings import Settings
from leakmeter.watch.coalitions import By
from leakmeter.watch.forecast import Forecast
from leakmeter.watch.state import Reading


class Point(Settings):
    """How good a copy the first queries buy."""

    queries: int
    fidelity: float
    """Of the best thief's copy."""
    interval: Interval
    thieves: dict[str, float]
    """The fidelity of each thief's copy, by how it was made."""


class Fired(Settings):
    """What a detector says of one client's queries."""

    detector: str
    fired_at: int | None
    """The query at which it raised its alarm; None: it did not."""
    queries: int
    """How many it was shown."""


class ClientCopy(Settings):
    """What a client, or several looked at as one, could have by now."""

    client: str
    clients: tuple[str, ...] = ()
    """Of a coalition: its members."""
    by: By = "client"
    """Why they are looked at as one."""
    honest: bool = False
    """Declared so by the owner: a control, which breaks no policy."""
    queries: int
    different: int
    """Different inputs among them."""
    trained_on: int
    """Answers the copy was trained on; fewer than there are only where there are more than `most`."""
    lost: int = 0
    """Queries whose array file could not be read."""
    novelty: float
    balance: float
    """Entropy of the classes answered, as a share of the highest."""
    coverage: float
    """The share of test inputs that have one of the queries near them."""
    first: str
    last: str
    view: str
    """What the answers show."""
    fidelity: float
    interval: Interval
    thieves: dict[str, float]
    """The fidelity of each copy made of these answers, by how it was made; the best is stated."""
    growth: list[Point] = Field(default_factory=list)
    forecast: Forecast | None = None
    """None: the line is passed, or there are too few points."""
    detectors: list[Fired] = Field(default_factory=list)
    alarm: bool
    """Whether the copy reaches the line."""
    soon: bool = False
    """Whether it will within a day, at the rate of now: before the next night's watch."""


class Others(Settings):
    """What clients could have whom no alarm names, if they were one."""

    accounts: int
    """How many clients; the busiest ones, where these are not all."""
    queries: int
    trained_on: int
    """Different queries that the copy was trained on."""
    fidelity: float
    interval: Interval
    thieves: dict[str, float]


class FalseAlarms(Settings):
    """How often honest clients would be taken for thieves."""

    what: str
    """`fidelity 80%`, a detector, or `asking alike`: to be taken for another account of somebody else."""
    honest: int
    flagged: int
    interval: Interval


class WatchResult(Settings):
    """Everything a watch found."""

    schema_version: int = 1
    created: str
    plan: dict[str, Any]
    environment: dict[str, Any]
    victim: VictimFacts
    reading: Reading
    line: float
    seen: int
    """Clients in the log so far."""
    honest: int
    """Declared honest among them."""
    too_few: int
    """Clients with fewer different queries than `least`: not looked at."""
    ranked_lower: int
    """Clients not looked at because others rank higher."""
    constant: float
    """Fidelity of the best copy that always names one class: it needs no query."""
    clients: list[ClientCopy]
    """The best copy first."""
    others: list[Others] = Field(default_factory=list)
    """Those whom no alarm names, as if they were one: the ten busiest, and last all of them."""
    false_alarms: list[FalseAlarms]
    verdict: Verdict
    folder: Path = Field(default=Path(), exclude=True)

    @property
    def exit_code(self) -> int:
        """0 pass or measured, 3 a client has passed the policy, 4 inconclusive."""
        return {"pass": 0, "measured": 0, "exceeded": 3, "undecided": 4}[self.verdict.outcome]
