"""The numbers of a result put side by side: computed once, shown by every format."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from statistics import fmean

from leakmeter.detectors.detection import Detection
from leakmeter.evaluation.intervals import attack_mean
from leakmeter.evaluation.transfer import Transfer
from leakmeter.evaluation.utility import Utility
from leakmeter.report.notes import noted
from leakmeter.results import Arm, AuditResult, Spending
from leakmeter.verdict import arm_label

MONTH = 30  # days
DEFAULT_RATE = 1000  # queries a day, where the plan states no limit


@dataclass(frozen=True)
class Surface:
    """What the API shows, and how every arm fared against it."""

    key: int
    """Its place in the report, for names that must differ."""
    view: str
    defense: str
    arms: list[Arm]
    untrained: float | None
    """Mean fidelity of substitutes that learned nothing."""

    @property
    def attackers(self) -> list[Arm]:
        """The arms of the threat model."""
        return [arm for arm in self.arms if not arm.control]

    @property
    def best(self) -> Arm | None:
        """The attacker whose final copy agrees most."""
        return max(self.attackers, key=lambda arm: arm.fidelity, default=None)


@dataclass(frozen=True)
class Rate:
    """What a rate limit does to the cheapest attacker."""

    view: str
    defense: str
    label: str
    fidelity: float
    queries: int
    bound: bool
    """Whether the curve begins above the fidelity: fewer queries may do."""
    days: float
    """At the limit in force."""
    monthly: int
    """The most queries a day that make the copy take a month."""
    money: float | None


@dataclass(frozen=True)
class DefenseRow:
    """What a defense buys under one view, and what it costs the honest user."""

    defense: str
    view: str
    fidelity: float
    label: str
    gain: float | None
    """How much lower the best copy is than with no defense under the same view."""
    accuracy_loss: float | None
    distortion: float | None


@dataclass(frozen=True)
class TransferRow:
    """Transfer from the copies of one arm: the mean over seeds."""

    label: str
    view: str
    defense: str
    examples: str
    success: float
    low: float
    high: float
    noise: float
    untrained: float | None
    white_box: float | None


@dataclass(frozen=True)
class DetectionRow:
    """When a detector would have seen one arm: the earliest and the latest over seeds."""

    label: str
    view: str
    defense: str
    detector: str
    first: int | None
    last: int | None
    missed: int
    """Seeds in which it never fired."""
    runs: int
    queries: int
    false_alarms: int
    """Seeds in which honest test data set it off too."""


@dataclass
class Bill:
    """What all seeds of an arm cost together."""

    label: str
    view: str
    defense: str
    control: bool
    runs: int = 0
    seconds: float = 0.0
    spent: list[Spending] = field(default_factory=list)

    def total(self, what: str) -> float:
        """The sum over seeds of one column of the ledger."""
        return sum(getattr(each, what) or 0 for each in self.spent)


def surfaces(result: AuditResult) -> list[Surface]:
    """Views with no defense first, then each defense, in the order of the audit."""
    groups: dict[tuple[str, str], list[Arm]] = defaultdict(list)
    for arm in result.verdict.arms:
        groups[arm.view, arm.defense].append(arm)
    ordered = sorted(groups.items(), key=lambda group: group[0][1] != "none")
    return [
        Surface(key, view, defense, arms, _untrained(result, view, defense))
        for key, ((view, defense), arms) in enumerate(ordered, 1)
    ]


def heat(shown: list[Surface]) -> list[tuple[str, list[tuple[str, dict[str, Arm]]]]]:
    """The heat table: for each defense, a row a label with its arm under each view."""
    table: dict[str, dict[str, dict[str, Arm]]] = defaultdict(lambda: defaultdict(dict))
    for surface in shown:
        for arm in surface.arms:
            table[surface.defense][arm.label][arm.view] = arm
    return [(defense, list(rows.items())) for defense, rows in table.items()]


def _untrained(result: AuditResult, view: str, defense: str) -> float | None:
    scores = [cell.untrained for cell in result.cells if (cell.view, cell.defense) == (view, defense)]
    return _mean([None if score is None else score.fidelity for score in scores])


def per_day(result: AuditResult) -> int:
    """The rate limit the advice is about."""
    return int(result.plan.get("queries_per_day") or DEFAULT_RATE)


def rates(result: AuditResult) -> list[Rate]:
    """For each surface and fidelity some attacker reached: how long it takes, and which limit makes it a month."""
    price = (result.plan.get("prices") or {}).get("query")
    rows = []
    for surface in surfaces(result):
        for fidelity in dict.fromkeys(cost.fidelity for arm in surface.attackers for cost in arm.costs):
            found = [
                (cost.queries, arm)
                for arm in surface.attackers
                for cost in arm.costs
                if cost.fidelity == fidelity and cost.queries is not None
            ]
            if not found:
                continue
            queries, arm = min(found, key=lambda each: each[0])
            rows.append(
                Rate(
                    view=surface.view,
                    defense=surface.defense,
                    label=arm.label,
                    fidelity=fidelity,
                    queries=queries,
                    bound=queries <= arm.curve[0][0],
                    days=queries / per_day(result),
                    monthly=max(1, queries // MONTH),
                    money=None if price is None else price * queries,
                )
            )
    return rows


def bills(result: AuditResult) -> list[Bill]:
    """The ledger, one line an arm."""
    rows: dict[tuple[str, str, str], Bill] = {}
    for cell in result.cells:
        if cell.spending is not None:
            key = arm_label(cell), cell.view, cell.defense
            bill = rows.setdefault(key, Bill(*key, control=cell.control))
            bill.runs += 1
            bill.seconds += cell.seconds
            bill.spent.append(cell.spending)
    return list(rows.values())


def defense_rows(result: AuditResult) -> list[DefenseRow]:
    """Each defense under each view; nothing where no defense was tried."""
    found = surfaces(result)
    if all(surface.defense == "none" for surface in found):
        return []
    bare = {surface.view: surface.best for surface in found if surface.defense == "none"}
    utilities = {(cell.view, cell.defense): utility for cell, utility in reversed(noted(result, "utility", Utility)[0])}
    rows = []
    for surface in found:
        best, before = surface.best, bare.get(surface.view)
        if best is not None:
            gain = None if before is None else before.fidelity - best.fidelity
            paid = utilities.get((surface.view, surface.defense), Utility())
            rows.append(
                DefenseRow(
                    surface.defense, surface.view, best.fidelity, best.label, gain, paid.accuracy_loss, paid.distortion
                )
            )
    return rows


def transfers(result: AuditResult) -> list[TransferRow]:
    """What adversarial examples from each arm's copies do to the victim, beside the controls."""
    groups: dict[tuple[str, str, str, str], list[Transfer]] = defaultdict(list)
    for cell in result.cells:
        if cell.transfer is not None:
            groups[arm_label(cell), cell.view, cell.defense, _examples(cell.transfer)].append(cell.transfer)
    return [_transfer_row(key, notes) for key, notes in groups.items()]


def _examples(note: Transfer) -> str:
    distance = "nearest" if note.eps is None else f"{note.eps:.3g}"
    return f"{note.attack}, {note.norm} {distance}{', targeted' if note.targeted else ''}"


def _transfer_row(key: tuple[str, str, str, str], notes: list[Transfer]) -> TransferRow:
    """Mean success, with the interval of what the attack reaches on average over all seeds and inputs."""
    rates = [note.copy_rate.value for note in notes]
    over = attack_mean(rates, min(note.copy_rate.n for note in notes))
    return TransferRow(
        *key,
        success=fmean(rates),
        low=over.low,
        high=over.high,
        noise=fmean(note.noise_rate.value for note in notes),
        untrained=_mean([None if note.untrained_rate is None else note.untrained_rate.value for note in notes]),
        white_box=_mean([None if note.white_box_rate is None else note.white_box_rate.value for note in notes]),
    )


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def detections(result: AuditResult) -> list[DetectionRow]:
    """At which query each arm would have been noticed."""
    groups: dict[tuple[str, str, str, str], list[Detection]] = defaultdict(list)
    for cell, note in noted(result, "detector", Detection)[0]:
        groups[arm_label(cell), cell.view, cell.defense, note.detector].append(note)
    rows = []
    for key, notes in groups.items():
        fired = [note.fired_at for note in notes if note.fired_at is not None]
        first, last = min(fired, default=None), max(fired, default=None)
        most = max(note.queries for note in notes)
        alarms = sum(note.benign is not None for note in notes)
        rows.append(DetectionRow(*key, first, last, len(notes) - len(fired), len(notes), most, alarms))
    return rows
