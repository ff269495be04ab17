"""The sections of a report, one file each, in the order of the page.

A section's file has one function, `section(result, folder)`, which returns a `Section` made of blocks, or None where
there is nothing to show. `folder` is the run folder, for pictures; every number comes from the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path

from leakmeter.report.blocks import Document, Section
from leakmeter.results import AuditResult

MakeSection = Callable[[AuditResult, Path], Section | None]

ORDER = (
    "verdict",
    "what_to_do",
    "explanations",
    "copy_cost",
    "attack_by_view",
    "classes",
    "rate_limits",
    "queries",
    "transfer",
    "adversarial",
    "defenses",
    "detection",
    "certified",
    "checks",
    "spending",
    "reproduce",
    "glossary",
    "limits",
)


def all_sections() -> list[MakeSection]:
    """What makes each section, in order."""
    return [import_module(f"{__name__}.{name}").section for name in ORDER]


def report_document(result: AuditResult, folder: Path, sections: Iterable[MakeSection] | None = None) -> Document:
    """The report that every format writes down; pictures are simply absent where `folder` has none."""
    made = [make(result, folder) for make in (all_sections() if sections is None else sections)]
    return Document(
        title=f"{result.plan.get('name') or 'audit'}: leak audit of {result.victim.name}",
        sections=[section for section in made if section is not None],
        footer=f"Written by leakmeter {result.environment.get('leakmeter', '')} from results.json (schema "
        f"{result.schema_version}). This page loads nothing and sends nothing.",
    )
