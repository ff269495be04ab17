"""What the report shows, and what not."""

from __future__ import annotations

from pathlib import Path

from leakmeter.report.blocks import Paragraph, Section
from leakmeter.results import AuditResult

_SHOWN = (
    "It shows how well copies made by these attacks, with these budgets and seeds, agree with the model on these test "
    "inputs, and what those copies cost."
)
_NOT_SHOWN = (
    "It does not show that no better attack exists: a copy cost is what the strongest attack tried here needed, so the "
    "true cost can only be lower. It does not speak for other inputs than the test data, for attackers with data or "
    "access this audit did not give them, or for anything that leaks in another way than through answers."
)


def section(result: AuditResult, _: Path) -> Section:
    """Always shown."""
    by = result.victim.authorized_by
    allowed = f" This audit was authorised by {by}." if by else ""
    permission = f"Audit only models that you own or have permission to test.{allowed}"
    blocks = [Paragraph(_NOT_SHOWN), Paragraph(permission)]
    return Section("limits", "What this report shows, and what not", _SHOWN, blocks)
