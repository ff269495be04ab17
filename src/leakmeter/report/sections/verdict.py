"""The answer: the outcome, one sentence about the best copy, what it costs, and the policy line by line."""

from __future__ import annotations

from pathlib import Path

from leakmeter.report.blocks import (
    Block,
    Callout,
    Entry,
    Figures,
    Headline,
    Link,
    Mono,
    Paragraph,
    Row,
    Section,
    Strong,
    Table,
)
from leakmeter.report.words import copies_words, count, many, outcome_words, percent, tone
from leakmeter.results import AuditResult, Verdict
from leakmeter.verdict.findings import GOOD


def section(result: AuditResult, _: Path) -> Section:
    """Always shown, and always first."""
    verdict = result.verdict
    headline = Headline(
        eyebrow=f"Leak audit of {result.victim.name} · {result.created[:10]}",
        badge=outcome_words(verdict),
        tone=tone(verdict.outcome, decided=verdict.rulings != []),
        text=verdict.headline,
    )
    sentences = [Paragraph(sentence) for sentence in verdict.sentences]
    blocks: list[Block] = [headline, *sentences, *_figures(result), *_warnings(result), _policy(verdict)]
    return Section("verdict", "Verdict", "", blocks, summary=True)


def _figures(result: AuditResult) -> list[Block]:
    attackers = [arm for arm in result.verdict.arms if not arm.control]
    if not attackers:
        return []
    best = max(attackers, key=lambda arm: max(arm.copies[-1]) if arm.copies else arm.fidelity)
    top = max(best.copies[-1]) if best.copies else best.fidelity
    asked = sum(cell.spending.queries for cell in result.cells if cell.spending)
    runs = f"{many(len(result.cells), 'run')} of {many(len(result.verdict.arms), 'arm')}"
    return [
        Figures(
            [
                (percent(top), "agreement of the best copy", f"{best.label}, seeing {best.view}; {copies_words(best)}"),
                _good_copy(result),
                (count(asked), "queries asked in all", runs),
            ]
        )
    ]


def _good_copy(result: AuditResult) -> tuple[str, str, str]:
    attackers = [arm for arm in result.verdict.arms if not arm.control]
    costs = [(cost, arm) for arm in attackers for cost in arm.costs if cost.fidelity == GOOD]
    reached = [(cost.cheapest, arm) for cost, arm in costs if cost.cheapest is not None]
    what = f"queries to a {GOOD:.0%} copy"
    if not reached:
        most = max(arm.queries for arm in attackers)
        near = any(cost.tries is not None and cost.tries.reached for cost, _ in costs)
        why = "one measured so, but too few test inputs to be sure" if near else "no attack got there within its budget"
        return f"> {count(most)}", what, why
    queries, arm = min(reached, key=lambda each: each[0])
    return f"≤ {count(queries)}", what, f"{arm.label}, seeing {arm.view}"


def _warnings(result: AuditResult) -> list[Block]:
    failed = [check for check in result.verdict.checks if not check.ok]
    unfinished = sum(cell.status != "done" for cell in result.cells)
    blocks: list[Block] = [
        Callout(
            "unsure",
            Strong(f"Check failed: {check.name}."),
            f" {check.message}. ",
            Link("What it means", "checks"),
        )
        for check in failed
    ]
    if unfinished:
        about = f"{unfinished} of {len(result.cells)} runs did not finish or did not apply. "
        blocks.append(Callout("unsure", about, Link("Which, and why", "spending")))
    return blocks


def _policy(verdict: Verdict) -> Block:
    if not verdict.rulings:
        return Paragraph(
            "No policy was set, so nothing was passed or failed. State what you will not accept under ",
            Mono("[policy]"),
            " in the plan.",
            muted=True,
        )
    rows = [Row(each.rule, Entry(each.outcome, tone=tone(each.outcome)), each.message) for each in verdict.rulings]
    return Table("The policy, line by line", ("Rule", "Outcome", "Why"), rows)
