"""What changed between two audits: their plans, and every arm they share."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Literal

from leakmeter.evaluation.intervals import exact
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

    A change is called one only where every copy made before is on the other side of every copy made after, on all
    inputs and not only on the test inputs: what is called unclear may still be real.
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
    old, new = ({point[0]: at for at, point in enumerate(arm.curve)} for arm in (before, after))
    common = max(old.keys() & new.keys(), default=None)
    if common is None:
        return Change("fidelity", _final(before), _final(after), "not comparable: no number of queries in common")
    was, now = (before, old[common]), (after, new[common])
    verdict = _FIDELITY[judge(_copies(*was), _copies(*now))]
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
    return f"{percent(mean)} ({percent(low)} to {percent(high)})"


def _span(arm: Arm, cost: CopyCost) -> tuple[float, float]:
    """Where the cost can lie: a fidelity not reached costs more than was spent, how much more is not known."""
    if cost.tries is None:
        return (cost.low or arm.queries, inf if cost.high is None else cost.high)
    return (cost.made_low, inf if cost.made is None else cost.made)
