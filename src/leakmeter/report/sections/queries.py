"""What the attacker asked: the first inputs of each attack, as pictures."""

from __future__ import annotations

from pathlib import Path

from leakmeter.report.blocks import Section
from leakmeter.report.pictures import gallery
from leakmeter.results import AuditResult


def section(result: AuditResult, folder: Path) -> Section | None:
    """Left out where the run folder has no pictures."""
    pictures = gallery(result, folder, "queries.png", alt="The first inputs sent by")
    lead = "The first inputs each attack sent."
    return Section("queries", "What the attacker asked", lead, pictures) if pictures else None
