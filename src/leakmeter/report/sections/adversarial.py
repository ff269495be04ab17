"""Adversarial examples: inputs changed a little on the copy, as pictures."""

from __future__ import annotations

from pathlib import Path

from leakmeter.report.blocks import Section
from leakmeter.report.pictures import gallery
from leakmeter.results import AuditResult


def section(result: AuditResult, folder: Path) -> Section | None:
    """Left out where the run folder has no pictures."""
    pictures = gallery(result, folder, "adversarial.png", alt="Adversarial examples from the copy made by")
    lead = (
        "Inputs changed a little, on the copy, until the answer changed: the originals, what became of them, and the "
        "difference."
    )
    return Section("adversarial", "Adversarial examples", lead, pictures) if pictures else None
