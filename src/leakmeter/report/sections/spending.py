"""What was spent: every answered input, by arm, and the runs that did not finish."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from leakmeter.report.blocks import Block, Heading, Numeric, Row, Section, Table
from leakmeter.report.words import count, duration, surface_words
from leakmeter.results import AuditResult, CellResult
from leakmeter.verdict import arm_label

_OPTIONAL_COLUMNS = ("explanations", "cached", "unconfirmed", "work", "evaluation")


def section(result: AuditResult, _: Path) -> Section:
    """Always shown."""
    lead = (
        "Every input the model answered, counted before it was asked. Scoring has its own account and is not part of "
        "an attack's budget."
    )
    unfinished = [Row(cell.id, cell.status, cell.error) for cell in result.cells if cell.status != "done"]
    blocks: list[Block] = [_ledger(result)]
    if unfinished:
        blocks.append(Heading("Runs that did not finish, or did not apply"))
        blocks.append(Table("What is missing from this report", ("Run", "Status", "Why"), unfinished))
    return Section("spending", "What was spent", lead, blocks)


def spent(cells: list[CellResult], what: str) -> float:
    """The sum over cells of one column of the ledger."""
    return sum(getattr(cell.spending, what) or 0 for cell in cells)


def _ledger(result: AuditResult) -> Table:
    arms: dict[tuple[str, str, str], list[CellResult]] = defaultdict(list)
    for cell in result.cells:
        if cell.spending is not None:
            arms[arm_label(cell), cell.view, cell.defense].append(cell)
    shown = ["queries", *(what for what in _OPTIONAL_COLUMNS if any(spent(cells, what) for cells in arms.values()))]
    currency = (result.plan.get("prices") or {}).get("currency", "")
    columns = ["Attack", "Shown", Numeric("Runs"), *(Numeric(what.capitalize()) for what in shown)]
    columns += [Numeric(currency)] * bool(currency) + [Numeric("Time")]
    rows = [
        Row(
            label,
            surface_words(view, defense),
            count(len(cells)),
            *(count(spent(cells, what)) for what in shown),
            *([f"{spent(cells, 'money'):,.2f}"] if currency else []),
            duration(sum(cell.seconds for cell in cells)),
            control=cells[0].control,
        )
        for (label, view, defense), cells in arms.items()
    ]
    return Table("The ledger, all seeds of an arm together", columns, rows)
