"""Can this audit be believed? The soundness checks, and what each would mean."""

from __future__ import annotations

from pathlib import Path

from leakmeter.report.blocks import Entry, Row, Section, Table
from leakmeter.results import AuditResult, Check


def section(result: AuditResult, _: Path) -> Section:
    """Always shown."""
    lead = (
        "An audit can be wrong in ways that look like safety. Each of these must hold before its verdict means "
        "anything; one that fails makes the audit inconclusive."
    )
    rows = [_row(check) for check in result.verdict.checks]
    table = Table("Soundness checks of the audit itself", ("Check", "Result", "Raised if, and what it means"), rows)
    return Section("checks", "Can this audit be believed?", lead, [table])


def _row(check: Check) -> Row:
    result = Entry("holds" if check.ok else "fails", check.message, "good" if check.ok else "unsure")
    return Row(check.name, result, Entry(f"Raised if {check.raised_if or 'the condition does not hold'}.", check.means))
