"""Attack by view: the fidelity of every final copy in one table, coloured by how much leaks."""

from __future__ import annotations

from pathlib import Path

from leakmeter.report.blocks import Entry, Numeric, Row, Section, Table
from leakmeter.report.surfaces import surfaces
from leakmeter.report.words import percent
from leakmeter.results import Arm, AuditResult


def section(result: AuditResult, _: Path) -> Section | None:
    """Left out where no copy was scored."""
    shown = surfaces(result)
    if not shown:
        return None
    views = list(dict.fromkeys(each.view for each in shown))
    groups = {
        defense: _rows(result.verdict.arms, defense, views) for defense in dict.fromkeys(s.defense for s in shown)
    }
    named = {"no defense" if defense == "none" else f"behind {defense}": rows for defense, rows in groups.items()}
    table = Table(
        "Final fidelity by attack and by what the API shows",
        ("Attack", *map(Numeric, views)),
        named if len(groups) > 1 else next(iter(groups.values())),
    )
    lead = (
        "Fidelity of the final copy: the stronger the colour, the more leaks. Read across a row to see what showing "
        "more gives away."
    )
    return Section("attack-by-view", "Attack by view", lead, [table])


def _rows(arms: list[Arm], defense: str, views: list[str]) -> list[Row]:
    here = [arm for arm in arms if arm.defense == defense]
    found = {(arm.label, arm.view): arm for arm in here}
    controls = {arm.label: arm.control for arm in reversed(here)}
    return [
        Row(label, *(_entry(found.get((label, view))) for view in views), control=controls[label])
        for label in dict.fromkeys(arm.label for arm in here)
    ]


def _entry(arm: Arm | None) -> Entry:
    return Entry("not tried") if arm is None else Entry(percent(arm.fidelity), share=arm.fidelity)
