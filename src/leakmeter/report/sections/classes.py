"""Class by class: on which of the model's answers the best copy agrees."""

from __future__ import annotations

from pathlib import Path

from leakmeter.evaluation.intervals import exact
from leakmeter.evaluation.score import ClassScore
from leakmeter.report.blocks import Entry, Numeric, Row, Section, Table
from leakmeter.report.surfaces import best_copy, surfaces
from leakmeter.report.words import class_name, count, percent, span
from leakmeter.results import AuditResult
from leakmeter.verdict import arm_label

_MOST = 40
"""Rows: of more classes the most and the least copied are shown."""


def section(result: AuditResult, _: Path) -> Section | None:
    """Left out where agreement was not measured by class."""
    bare = [surface.best for surface in surfaces(result) if surface.defense == "none" and surface.best]
    if not bare:
        return None
    best = max(bare, key=best_copy)
    runs = [
        cell.class_scores
        for cell in result.cells
        if cell.class_scores and (arm_label(cell), cell.view, cell.defense) == (best.label, best.view, best.defense)
    ]
    pooled = [
        ClassScore(n=sum(s.n for s in scores), same=sum(s.same for s in scores)) for scores in zip(*runs, strict=True)
    ]
    measured = sorted((each.same / each.n, k) for k, each in enumerate(pooled) if each.n)[::-1]
    if not measured:
        return None
    shown = measured if len(measured) <= _MOST else measured[: _MOST // 2] + measured[-_MOST // 2 :]
    rows = [_row(class_name(result.victim, k), share, pooled[k].n // len(runs)) for share, k in shown]
    lead = (
        f"How often the copies of the strongest attack ({best.label}, seeing {best.view}) agree where the model names "
        "each class, all seeds together. A class that is copied poorly is where the copy gives itself away."
    )
    left = "" if len(shown) == len(measured) else f": the most and the least copied of {count(len(measured))}"
    table = Table(f"Agreement by class{left}", ("Class", Numeric("Inputs"), Numeric("Fidelity")), rows)
    return Section("classes", "Class by class", lead, [table])


def _row(name: str, share: float, inputs: int) -> Row:
    """All seeds are measured on the same inputs, so that more seeds make the share no surer."""
    interval = exact(share * inputs, inputs)
    return Row(name, count(inputs), Entry(percent(share), span(interval.low, interval.high), share=share))
