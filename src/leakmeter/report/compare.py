"""What changed between two audits: their plans, and every arm they share."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Literal

from leakmeter.report.rendering import environment
from leakmeter.report.words import cost_line, outcome_words, percent, surface
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
class ArmChange:
    """One arm in both audits."""

    label: str
    shown: str
    control: bool
    changes: list[Change]


@dataclass(frozen=True)
class Comparison:
    """Two audits side by side."""

    before: AuditResult
    after: AuditResult
    plan: list[str]
    environment: list[str]
    arms: list[ArmChange]
    gone: list[str]
    new: list[str]


def compare(before: AuditResult, after: AuditResult) -> Comparison:
    """Matches arms by attack, view and defense.

    A change is called one only where the two intervals do not meet, which is stricter than a test of the difference:
    what is called unclear may still be real.
    """
    old, new = _arms(before), _arms(after)
    return Comparison(
        before,
        after,
        plan=differences(before.plan, after.plan),
        environment=differences(before.environment, after.environment),
        arms=[
            ArmChange(arm.label, surface(arm.view, arm.defense), arm.control, _changes(old[key], arm))
            for key, arm in new.items()
            if key in old
        ],
        gone=[_name(arm) for key, arm in old.items() if key not in new],
        new=[_name(arm) for key, arm in new.items() if key not in old],
    )


def comparison_text(comparison: Comparison) -> str:
    """For a terminal."""
    before, after = comparison.before, comparison.after
    lines = [f"{audit.created}  {outcome_words(audit.verdict)}: {audit.verdict.headline}" for audit in (before, after)]
    lines += ["", *(f"plan: {line}" for line in comparison.plan)]
    lines += [f"environment: {line}" for line in comparison.environment]
    for arm in comparison.arms:
        lines.append(f"{arm.label}, showing {arm.shown}{' (control)' if arm.control else ''}")
        lines += [f"  {each.what}: {each.before} -> {each.after}: {each.judgement}" for each in arm.changes]
    lines += [f"only before: {name}" for name in comparison.gone]
    lines += [f"only after: {name}" for name in comparison.new]
    return "\n".join(lines)


def comparison_html(comparison: Comparison) -> str:
    """A page like the report: self-contained, without a script."""
    return environment().get_template("compare.html").render(comparison=comparison)


def judge(before: tuple[float, float], after: tuple[float, float]) -> Judgement:
    """Up or down where the intervals do not meet."""
    if before == after:
        return "same"
    if after[0] > before[1]:
        return "up"
    return "down" if after[1] < before[0] else "unclear"


def _arms(result: AuditResult) -> dict[tuple[str, str, str], Arm]:
    return {(arm.label, arm.view, arm.defense): arm for arm in result.verdict.arms}


def _name(arm: Arm) -> str:
    return f"{arm.label}, showing {surface(arm.view, arm.defense)}"


def _changes(before: Arm, after: Arm) -> list[Change]:
    costs = [
        Change(
            f"queries to {old.fidelity:.0%}",
            cost_line(before, old),
            cost_line(after, new),
            _COST[judge(_span(before, old), _span(after, new))],
        )
        for old, new in zip(before.costs, after.costs, strict=False)
        if old.fidelity == new.fidelity and (old.queries, new.queries) != (None, None)
    ]
    return [_fidelity_change(before, after), *costs]


def _fidelity_change(before: Arm, after: Arm) -> Change:
    """At the largest number of queries both curves have: a copy that cost more is better for that alone."""
    old, new = ({point[0]: point[1:] for point in arm.curve} for arm in (before, after))
    common = max(old.keys() & new.keys(), default=None)
    if common is None:
        return Change("fidelity", _final(before), _final(after), "not comparable: no number of queries in common")
    verdict = _FIDELITY[judge(old[common][1:], new[common][1:])]
    return Change(f"fidelity at {common:,} queries", _rate(*old[common]), _rate(*new[common]), verdict)


def _final(arm: Arm) -> str:
    return f"{_rate(arm.fidelity, arm.fidelity_interval.low, arm.fidelity_interval.high)} at {arm.queries:,} queries"


def _rate(mean: float, low: float, high: float) -> str:
    return f"{percent(mean)} ({percent(low)} to {percent(high)})"


def _span(arm: Arm, cost: CopyCost) -> tuple[float, float]:
    """Where the cost can lie: a fidelity not reached costs more than was spent, how much more is not known."""
    return (cost.low or arm.queries, inf if cost.high is None else cost.high)
