"""What the copy is good for: adversarial examples made on it, tried on the model, beside their controls."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from leakmeter.evaluation.intervals import Interval, attack_mean
from leakmeter.evaluation.transfer import Transfer
from leakmeter.report.blocks import Entry, Numeric, Row, Section, Table
from leakmeter.report.surfaces import mean
from leakmeter.report.words import percent, span, surface_words
from leakmeter.results import AuditResult
from leakmeter.verdict import arm_label


@dataclass(frozen=True)
class ArmTransfer:
    """What all seeds of an arm found: never of two defenses together."""

    label: str
    view: str
    defense: str
    examples: str
    found: list[Transfer]

    def rate(self, kind: str) -> float | None:
        """Mean over seeds of `copy_rate`, `noise_rate`, `untrained_rate` or `white_box_rate`."""
        rates = [getattr(each, kind) for each in self.found]
        return mean([None if rate is None else rate.value for rate in rates])

    @property
    def interval(self) -> Interval:
        """Of what the attack reaches on average, over all seeds and inputs: wide where there are few seeds."""
        rates = [each.copy_rate for each in self.found]
        return attack_mean([rate.value for rate in rates], min(rate.n for rate in rates))


def section(result: AuditResult, _: Path) -> Section | None:
    """Left out where transfer was not tried."""
    rows = [
        Row(
            each.label,
            surface_words(each.view, each.defense),
            each.examples,
            Entry(percent(each.rate("copy_rate")), span(each.interval.low, each.interval.high)),
            *(percent(each.rate(kind)) for kind in ("noise_rate", "untrained_rate", "white_box_rate")),
        )
        for each in arm_transfers(result)
    ]
    if not rows:
        return None
    lead = (
        "Adversarial examples made on the copy, with full access to it, then shown to the model. What fools both makes "
        "the copy a tool against the model. Only inputs the model gets right count; noise and an untrained copy show "
        "what any perturbation would have done."
    )
    rates = ("Fool the model", "Random noise, as large", "From an untrained copy", "White box")
    columns = ("Copy made by", "Shown", "Examples", *map(Numeric, rates))
    table = Table("Success on the model of examples made on its copy", columns, rows)
    return Section("transfer", "What the copy is good for", lead, [table])


def arm_transfers(result: AuditResult) -> list[ArmTransfer]:
    """One for each arm and kind of example."""
    groups: dict[tuple[str, str, str, str], list[Transfer]] = defaultdict(list)
    for cell in result.cells:
        if cell.transfer is not None:
            groups[arm_label(cell), cell.view, cell.defense, _examples(cell.transfer)].append(cell.transfer)
    return [ArmTransfer(*key, found) for key, found in groups.items()]


def _examples(found: Transfer) -> str:
    distance = "nearest" if found.eps is None else f"{found.eps:.3g}"
    return f"{found.attack}, {found.norm} {distance}{', targeted' if found.targeted else ''}"
