"""The verdict for a terminal."""

from __future__ import annotations

from leakmeter.report.words import outcome_words
from leakmeter.results import AuditResult


def verdict_text(result: AuditResult) -> str:
    """A few lines: the answer, what a copy costs, what is wrong with the audit if anything is."""
    verdict = result.verdict
    lines = [f"{outcome_words(verdict).upper()}: {verdict.headline}", *verdict.sentences, ""]
    lines += [
        f"  {arm.label:24} {arm.view:10} {arm.defense:10} {arm.queries:>8,} queries  fidelity {arm.fidelity:6.1%} "
        f"({arm.fidelity_interval.low:.1%} to {arm.fidelity_interval.high:.1%}){'  control' if arm.control else ''}"
        for arm in verdict.arms
    ]
    lines += [f"policy: {ruling.rule}: {ruling.outcome}: {ruling.message}" for ruling in verdict.rulings]
    lines += [f"check failed: {check.name}: {check.message}" for check in verdict.checks if not check.ok]
    return "\n".join(lines)
