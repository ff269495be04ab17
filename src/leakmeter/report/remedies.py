"""The recommendation in words: the cheapest defense and limit with which the policy holds, or that none does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from leakmeter.report.blocks import Mono, Part, Strong
from leakmeter.report.words import count, percent, span, surface_words
from leakmeter.results import AuditResult, Recommendation, Remedy


def remedy_steps(result: AuditResult, sound: bool) -> Iterator[Sequence[Part]]:
    """Nothing where there is no policy, or it holds as things are.

    Where some check fails, no more than that nothing holds: what holds there may only have been attacked too weakly.
    """
    found = result.verdict.recommendation
    if found is None or result.verdict.outcome == "pass":
        return
    if not found.remedies:
        yield _none(found, sound)
    if not found.remedies or not sound:
        return
    bounds = result.plan.get("honest") or {}
    stated = any(value is not None for value in bounds.values())
    allowed: Sequence[Part] = (
        () if stated else (" The plan sets no bounds under ", Mono("[honest]"), ": any cost was allowed.")
    )
    first = found.remedies[0]
    hold = "may make the policy hold" if first.doubt else "makes the policy hold"
    yield Strong(f"Cheapest that {hold}: {_what(first)}."), _says(first), *allowed
    other = next((each for each in found.remedies if (each.limit is None) != (first.limit is None)), None)
    if other is not None:
        how = "without a limit" if other.limit is None else "with a limit"
        yield Strong(f"Or, {how}: {_what(other)}."), _says(other)


def _none(found: Recommendation, sound: bool) -> Sequence[Part]:
    tried = f"None of the {found.tried} ways to show answers that were tried makes the policy hold"
    if not found.too_dear:
        return Strong(f"{tried}."), " Try stronger defenses, lower limits (smaller stops) or show less."
    if not sound:
        return (Strong(f"{tried} at the cost allowed."),)
    nearest = found.too_dear[0]
    return Strong(f"{tried} at the cost allowed."), f" The cheapest that does is {_what(nearest)}.{_says(nearest)}"


def _what(remedy: Remedy) -> str:
    limit = "" if remedy.limit is None else f", at most {count(remedy.limit)} queries for one client"
    return f"showing {surface_words(remedy.view, remedy.defense)}{limit}"


def _says(remedy: Remedy) -> str:
    ends = span(remedy.interval.low, remedy.interval.high)
    copy = f" The best copy then agrees on {percent(remedy.fidelity)} ({ends}; {remedy.attack})."
    paid = [f"{percent(remedy.accuracy_loss)} accuracy"] * (remedy.accuracy_loss is not None)
    paid += [f"{percent(remedy.distortion)} of probability moved"] * (remedy.distortion is not None)
    cost = f" Honest users pay {' and '.join(paid)}" if paid else " What honest users pay was not measured"
    kept = ""
    if remedy.agreement is not None and remedy.defense != "none":
        kept = f"; they get the same label in {span(remedy.agreement.low, remedy.agreement.high)} of cases"
    known = "" if remedy.knowing else f" Attackers did not know of it: try {remedy.defense}/adaptive too."
    doubt = f" That is not sure yet: {remedy.doubt}." if remedy.doubt else ""
    return f"{copy}{doubt}{cost}{kept}.{known}"
