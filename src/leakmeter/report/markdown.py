"""`report.md`: the report as text, for pull requests and wikis."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from leakmeter.report import facts
from leakmeter.report.words import cost_line, count, days, duration, fired, outcome_words, percent, surface
from leakmeter.results import AuditResult


def report_markdown(result: AuditResult) -> str:
    """Everything of the report that is not a picture; a section with nothing to show is left out."""
    verdict, victim = result.verdict, result.victim
    parts = [
        f"# {escaped(verdict.headline)}",
        f"**{outcome_words(verdict)}.** Leak audit of {escaped(victim.name)}, {escaped(result.created[:10])}.",
        *map(escaped, verdict.sentences),
        *([f"Authorised by {escaped(victim.authorized_by)}."] if victim.authorized_by else []),
    ]
    sections = {
        "Policy": table("Rule|Outcome|Why", ((each.rule, each.outcome, each.message) for each in verdict.rulings))
        or "No policy was set, so nothing was passed or failed.",
        "What a copy costs": _costs(result),
        "Rate limits": _rates(result),
        "What the copy is good for": _transfers(result),
        "Defenses": _defenses(result),
        "Detection": _detections(result),
        "Certified accuracy": _certified(result),
        "Can this audit be believed?": table(
            "Check|Result|Found|Raised if|What it means",
            (
                (each.name, "holds" if each.ok else "FAILS", each.message, each.raised_if, each.means)
                for each in verdict.checks
            ),
        ),
        "What was spent": _spending(result),
        "Runs that did not finish, or did not apply": table(
            "Run|Status|Why", ((cell.id, cell.status, cell.error) for cell in result.cells if cell.status != "done")
        ),
        "Reproduce it": "`leakmeter audit plan.toml`, with the plan of the run folder. "
        + escaped(", ".join(f"{name} {value}" for name, value in result.environment.items()))
        + ".",
    }
    for title, text in sections.items():
        if text:
            parts += [f"## {title}", text]
    parts.append("Copy costs are those of the attacks tried here: a better attack can only make a copy cheaper.")
    return "\n\n".join(parts) + "\n"


def escaped(value: object) -> str:
    """Text that stays text in Markdown, in a table and in the HTML that it becomes."""
    text = re.sub(r"([\\`*_\[\]|~])", r"\\\1", re.sub(r"\s+", " ", str(value)))
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def table(header: str, rows: Iterable[Sequence[object]]) -> str:
    """A table whose columns are named in `header`, with bars between; nothing without rows."""
    lines = ["| " + " | ".join(map(escaped, row)) + " |" for row in rows]
    names = header.split("|")
    return "\n".join([f"| {' | '.join(names)} |", "| --- " * len(names) + "|", *lines]) if lines else ""


def _costs(result: AuditResult) -> str:
    levels = [f"{cost.fidelity:.0%}" for arm in result.verdict.arms[:1] for cost in arm.costs]
    return table(
        "|".join(["Attack", "Shown", *levels, "Final fidelity", "Interval"]),
        (
            (
                arm.label + (" (control)" if arm.control else ""),
                surface(arm.view, arm.defense),
                *(cost_line(arm, cost) for cost in arm.costs),
                percent(arm.fidelity),
                f"{percent(arm.fidelity_interval.low)} to {percent(arm.fidelity_interval.high)}",
            )
            for shown in facts.surfaces(result)
            for arm in shown.arms
        ),
    )


def _rates(result: AuditResult) -> str:
    return table(
        f"Shown|Copy|Cheapest attack|Queries|At {count(facts.per_day(result))} a day|To make it a month, at most",
        (
            (
                surface(each.view, each.defense),
                f"{each.fidelity:.0%}",
                each.label,
                ("≤ " if each.bound else "") + count(each.queries),
                days(each.days),
                f"{count(each.monthly)} a day",
            )
            for each in facts.rates(result)
        ),
    )


def _transfers(result: AuditResult) -> str:
    return table(
        "Copy made by|Shown|Examples|Fool the model|Random noise, as large|From an untrained copy|White box",
        (
            (
                row.label,
                surface(row.view, row.defense),
                row.examples,
                *map(percent, (row.success, row.noise, row.untrained, row.white_box)),
            )
            for row in facts.transfers(result)
        ),
    )


def _defenses(result: AuditResult) -> str:
    return table(
        "Defense|View|Best attack|Fidelity|Taken from the copy|Accuracy lost|Probability moved",
        (
            (
                row.defense,
                row.view,
                row.label,
                percent(row.fidelity),
                percent(row.gain),
                percent(row.accuracy_loss),
                percent(row.distortion),
            )
            for row in facts.defense_rows(result)
        ),
    )


def _detections(result: AuditResult) -> str:
    return table(
        "Attack|Shown|Detector|Would have fired at query",
        ((row.label, surface(row.view, row.defense), row.detector, fired(row)) for row in facts.detections(result)),
    )


def _certified(result: AuditResult) -> str:
    return table(
        "Curve|Inputs|Radius|Certified accuracy",
        (
            (curve.label, count(curve.n), f"{curve.norm} {radius:.3g}", percent(accuracy))
            for curve in ([] if result.certified is None else [result.certified])
            for radius, accuracy in curve.points
        ),
    )


def _spending(result: AuditResult) -> str:
    return table(
        "Attack|Shown|Runs|Queries|Evaluation|Time",
        (
            (
                bill.label + (" (control)" if bill.control else ""),
                surface(bill.view, bill.defense),
                bill.runs,
                count(bill.total("queries")),
                count(bill.total("evaluation")),
                duration(bill.seconds),
            )
            for bill in facts.bills(result)
        ),
    )
