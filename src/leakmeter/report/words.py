"""Numbers and outcomes in words, the same in every format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leakmeter.results import Arm, AuditResult, CopyCost, Verdict

if TYPE_CHECKING:
    from leakmeter.report.facts import DetectionRow

_OUTCOMES = {"pass": "Policy met", "exceeded": "Policy exceeded", "undecided": "Inconclusive"}


def outcome_words(verdict: Verdict) -> str:
    """The outcome; an audit without a policy has measured, not passed."""
    if verdict.outcome == "pass" and not verdict.rulings:
        return "Measured, no policy set"
    return _OUTCOMES[verdict.outcome]


def tone(outcome: str, *, decided: bool = True) -> str:
    """The style class of an outcome: good, bad, unsure or plain."""
    return {"pass": "good" if decided else "plain", "exceeded": "bad"}.get(outcome, "unsure")


def percent(value: float | None) -> str:
    """One decimal; a dash for what was not measured."""
    return "–" if value is None else f"{value:.1%}"


def count(value: float | None) -> str:
    """Thousands apart; a dash for what was not measured."""
    return "–" if value is None else f"{value:,.0f}"


def many(number: int, noun: str) -> str:
    """1 run, 2 runs."""
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def short(value: float) -> str:
    """500, 20k, 1.5M: for the axis of a chart."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def duration(seconds: float) -> str:
    """The two largest units at most."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def days(value: float) -> str:
    """Days in words; less than one is said so."""
    if value < 1:
        return "less than a day"
    return many(round(value), "day")


def surface(view: str, defense: str) -> str:
    """What the API shows."""
    return view if defense == "none" else f"{view} behind {defense}"


def cost_words(arm: Arm, cost: CopyCost) -> tuple[str, str]:
    """Queries to a fidelity by the best try made, and by the attack on average; no closer than the curve's points."""
    if cost.tries is None:  # measured before costs were bracketed
        return (f"not within {count(arm.queries)}" if cost.queries is None else f"about {count(cost.queries)}"), ""
    tries = f"{cost.tries.reached} of {cost.tries.made} tries"
    if cost.made is None:
        return f"not within {count(arm.queries)}", tries
    return f"{count(cost.made_low)} to {count(cost.made)}" if cost.made_low < cost.made else count(cost.made), tries


def cost_line(arm: Arm, cost: CopyCost) -> str:
    """The same on one line."""
    queries, interval = cost_words(arm, cost)
    return f"{queries} ({interval})" if interval else queries


def fired(row: DetectionRow) -> str:
    """When a detector would have fired, over seeds."""
    also = "; honest test data sets it off too" if row.false_alarms else ""
    if row.first is None:
        return f"never in {count(row.queries)}{also}"
    ends = count(row.first) if row.first == row.last else f"{count(row.first)} to {count(row.last)}"
    missed = f", never in {row.missed} of {row.runs} runs" if row.missed else ""
    return f"{ends} of {count(row.queries)}{missed}{also}"


def headline_facts(result: AuditResult) -> list[tuple[str, str, str]]:
    """The figures at the top: number, what it is, and where it comes from."""
    attackers = [arm for arm in result.verdict.arms if not arm.control]
    if not attackers:
        return []
    best = max(attackers, key=lambda arm: arm.fidelity)
    ends = f"{percent(best.fidelity_interval.low)} to {percent(best.fidelity_interval.high)}"
    facts = [(percent(best.fidelity), "agreement of the best copy", f"{best.label}, seeing {best.view}; {ends}")]
    costs = [(cost.queries, arm) for arm in attackers for cost in arm.costs if cost.fidelity == 0.9]
    reached = [(queries, arm) for queries, arm in costs if queries is not None]
    if reached:
        queries, arm = min(reached, key=lambda each: each[0])
        bound = "≤ " if queries <= arm.curve[0][0] else ""
        facts.append((f"{bound}{count(queries)}", "queries to a 90% copy", f"{arm.label}, seeing {arm.view}"))
    else:
        most = max(arm.queries for arm in attackers)
        facts.append((f"> {count(most)}", "queries to a 90% copy", "no attack got there within its budget"))
    asked = sum(cell.spending.queries for cell in result.cells if cell.spending)
    facts.append(
        (
            count(asked),
            "queries asked in all",
            f"{many(len(result.cells), 'run')} of {many(len(result.verdict.arms), 'arm')}",
        )
    )
    return facts
