"""What the words mean."""

from __future__ import annotations

from pathlib import Path

from leakmeter.report.blocks import Facts, Section
from leakmeter.report.glossary import GLOSSARY
from leakmeter.results import AuditResult


def section(_: AuditResult, __: Path) -> Section:
    """Always shown: those who cannot hover look here."""
    return Section("glossary", "What the words mean", "", [Facts(list(GLOSSARY.items()))])
