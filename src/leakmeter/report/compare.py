"""What changed between two audits: their plans, and every arm they share."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any, Literal

from leakmeter.evaluation.intervals import exact
from leakmeter.report.blocks import (
    Block,
    Callout,
    Document,
    Entry,
    Headline,
    Paragraph,
    Preformatted,
    Row,
    Section,
    Table,
)
from leakmeter.report.words import cost_words, outcome_words, percent, span, surface_words, tone
from leakmeter.results import Arm, AuditResult, CopyCost
from leakmeter.runs.run import differences

Judgement = Literal["up", "down", "unclear", "same"]
_FIDELITY = {"up": "leaks more", "down": "leaks less", "unclear": "no clear change", "same": "the same"}
_COST = {"up": "costs more", "down": "costs less", "unclear": "no clear change", "same": "the same"}


@dataclass(frozen=True)
class Change:
    """One quantity of one arm, before and after."""

    what: str
    before: str
    after: str
    judgement: str


@dataclass(frozen=True)
class Comparison:
    """Two audits side by side."""

    before: AuditResult
    after: AuditResult
    doubts: list[str]
    """Why nothing can be said of the difference; empty: it can."""
    plan: list[str]
    environment: list[str]
    arms: dict[str, list[Change]]
    """For each arm that both have."""
    apart: list[str]
    """Arms that only one of them has."""


def compare(before: AuditResult, after: AuditResult) -> Comparison:
    """Matches arms by attack, view and defense.

    A change is called one only where every copy made before is on the other side of every copy made after, on all
    inputs and not only on the test inputs: what is called unclear may still be real. Nothing is called a change where
    an audit cannot be believed, or where the two asked about different inputs.
    """
    old, new, doubts = _arms(before), _arms(after), _doubts(before, after)
    return Comparison(
        before,
        after,
        doubts=doubts,
        plan=differences(before.plan, after.plan),
        environment=differences(before.environment, after.environment),
        arms={_name(arm): _changes(old[key], arm, undecided=bool(doubts)) for key, arm in new.items() if key in old},
        apart=[f"only before: {_name(arm)}" for key, arm in old.items() if key not in new]
        + [f"only after: {_name(arm)}" for key, arm in new.items() if key not in old],
    )


def comparison_text(comparison: Comparison) -> str:
    """For a terminal."""
    audits = (comparison.before, comparison.after)
    lines = [f"{audit.created}  {outcome_words(audit.verdict)}: {audit.verdict.headline}" for audit in audits]
    lines += ["", *comparison.doubts, *(f"plan: {line}" for line in comparison.plan)]
    lines += [f"environment: {line}" for line in comparison.environment]
    for arm, changes in comparison.arms.items():
        lines.append(arm)
        lines += [f"  {each.what}: {each.before} -> {each.after}: {each.judgement}" for each in changes]
    return "\n".join(lines + comparison.apart)


def comparison_document(comparison: Comparison) -> Document:
    """Like a report: `document_html` makes a page of it, `document_markdown` a text."""
    title = f"What changed in {comparison.after.victim.name}"
    audits = {"before": comparison.before, "after": comparison.after}
    arms = {
        arm: [Row(each.what, each.before, each.after, each.judgement) for each in changes]
        for arm, changes in comparison.arms.items()
    }
    first: list[Block] = [
        Headline("Two audits compared", "", "plain", title),
        *(Callout("unsure", doubt) for doubt in comparison.doubts),
        Table(
            "The two verdicts", ("Audit", "Model", "Outcome", "In words"), [_verdict(*each) for each in audits.items()]
        ),
    ]
    by_arm: list[Block] = [
        Table("Every attack that both audits tried", ("Quantity", "Before", "After", "Judgement"), arms),
        *map(Paragraph, comparison.apart),
    ]
    settings = Preformatted("\n".join(comparison.plan + comparison.environment) or "Both are the same.")
    return Document(
        title,
        [
            Section("verdicts", "The two verdicts", "", first),
            Section(
                "arms",
                "Attack by attack",
                "A change is one only where all copies before are surely on the other side of all copies after.",
                by_arm,
            ),
            Section("plan", "Plan and environment", "", [settings]),
        ],
    )


def judge(before: tuple[float, float], after: tuple[float, float]) -> Judgement:
    """Up or down where the intervals do not meet."""
    if before == after:
        return "same"
    if after[0] > before[1]:
        return "up"
    return "down" if after[1] < before[0] else "unclear"


def _doubts(before: AuditResult, after: AuditResult) -> list[str]:
    found = [
        f"Undecided: the audit {when} fails its check “{check.name}”: {check.message}."
        for when, audit in (("before", before), ("after", after))
        for check in audit.verdict.checks
        if not check.ok
    ]
    asked = differences(_inputs(before), _inputs(after))
    return found + ([f"Undecided: the audits are about different inputs: {'; '.join(asked)}."] if asked else [])


def _inputs(audit: AuditResult) -> dict[str, Any]:
    """What the attackers asked within, and what copies were scored on: a difference here is not the model's."""
    victim = audit.plan.get("victim") or {}
    box = {key: value for key, value in victim.items() if key not in ("source", "remote")}
    return {"victim": box, "data": audit.plan.get("data"), "input_shape": audit.victim.input_shape}


def _verdict(when: str, audit: AuditResult) -> Row:
    outcome = Entry(outcome_words(audit.verdict), tone=tone(audit.verdict.outcome, decided=audit.verdict.rulings != []))
    return Row(Entry(when, audit.created), audit.victim.name, outcome, audit.verdict.headline)


def _arms(result: AuditResult) -> dict[tuple[str, str, str], Arm]:
    return {(arm.label, arm.view, arm.defense): arm for arm in result.verdict.arms}


def _name(arm: Arm) -> str:
    return f"{arm.label}, showing {surface_words(arm.view, arm.defense)}{' (control)' if arm.control else ''}"


def _changes(before: Arm, after: Arm, *, undecided: bool) -> list[Change]:
    costs = [
        Change(
            f"queries to {old.fidelity:.0%}",
            _cost(before, old),
            _cost(after, new),
            "undecided" if undecided else _COST[judge(_span(before, old), _span(after, new))],
        )
        for old, new in zip(before.costs, after.costs, strict=False)
        if old.fidelity == new.fidelity and (old.queries, new.queries) != (None, None)
    ]
    return [_fidelity_change(before, after, undecided=undecided), *costs]


def _fidelity_change(before: Arm, after: Arm, *, undecided: bool) -> Change:
    """At the largest number of queries both curves have: a copy that cost more is better for that alone."""
    old, new = ({point[0]: at for at, point in enumerate(arm.curve)} for arm in (before, after))
    common = max(old.keys() & new.keys(), default=None)
    if common is None:
        return Change("fidelity", _final(before), _final(after), "not comparable: no number of queries in common")
    was, now = (before, old[common]), (after, new[common])
    verdict = "undecided" if undecided else _FIDELITY[judge(_copies(*was), _copies(*now))]
    one, two = (_rate(arm.curve[at][1], *_copies(arm, at)) for arm, at in (was, now))
    return Change(f"fidelity at {common:,} queries", one, two, verdict)


def _copies(arm: Arm, at: int) -> tuple[float, float]:
    """Where the copies made lie on all inputs; results of before there was this have only the interval over seeds."""
    if not arm.copies:
        return arm.curve[at][2], arm.curve[at][3]
    ends = [exact(rate * arm.inputs, arm.inputs) for rate in arm.copies[at]]
    return min(end.low for end in ends), max(end.high for end in ends)


def _final(arm: Arm) -> str:
    return f"{_rate(arm.fidelity, arm.fidelity_interval.low, arm.fidelity_interval.high)} at {arm.queries:,} queries"


def _rate(mean: float, low: float, high: float) -> str:
    return f"{percent(mean)} ({span(low, high)})"


def _cost(arm: Arm, cost: CopyCost) -> str:
    queries, interval = cost_words(arm, cost)
    return f"{queries} ({interval})" if interval else queries


def _span(arm: Arm, cost: CopyCost) -> tuple[float, float]:
    """Where the cost can lie: a fidelity not reached costs more than was spent, how much more is not known."""
    if cost.tries is None:
        return (cost.low or arm.queries, inf if cost.high is None else cost.high)
    return (cost.made_low, inf if cost.made is None else cost.made)
