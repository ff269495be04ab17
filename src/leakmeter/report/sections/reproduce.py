"""Reproduce it: the command, the model, the environment and the whole plan."""

from __future__ import annotations

from pathlib import Path

import tomli_w

from leakmeter.report.blocks import Facts, Folded, Mono, Paragraph, Preformatted, Section
from leakmeter.report.words import count, percent
from leakmeter.results import AuditResult, VictimFacts
from leakmeter.runs.run import without_none


def section(result: AuditResult, _: Path) -> Section:
    """Always shown."""
    lead = "The same seeds, versions and threads give the same copies, bit for bit on the same kind of processor."
    how = Paragraph(
        "Save the plan below as ",
        Mono("plan.toml"),
        " (the run folder has the same) and audit it again. ",
        Mono("leakmeter report RUN"),
        " rebuilds this page without the model; ",
        Mono("leakmeter compare A B"),
        " shows what changed between two audits.",
    )
    plan = Folded("The whole plan", [Preformatted(tomli_w.dumps(without_none(result.plan)))])
    command = Preformatted("leakmeter audit plan.toml")
    return Section("reproduce", "Reproduce it", lead, [how, command, Facts(_facts(result)), plan])


def _facts(result: AuditResult) -> list[tuple[str, str]]:
    victim = result.victim
    named = [
        ("Model", _model(victim)),
        ("Classes", ", ".join(victim.class_names)),
        ("Test data", f"{victim.test}, {count(victim.test_size)} inputs" if victim.test else ""),
        ("Seeds", ", ".join(map(str, result.plan.get("seeds") or []))),
        ("Authorised by", victim.authorized_by or ""),
        ("Finished", result.created),
    ]
    return [fact for fact in named if fact[1]] + [(name, str(value)) for name, value in result.environment.items()]


def _model(victim: VictimFacts) -> str:
    accurate = "" if victim.accuracy is None else f", {percent(victim.accuracy)} accurate"
    shape = " × ".join(map(str, victim.input_shape))
    return f"{victim.name}: inputs {shape}, {count(victim.classes)} classes, answers {victim.outputs}{accurate}"
