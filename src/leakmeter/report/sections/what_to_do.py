"""What to do now: which limit, view or defense lowers the leak, by how much, and what it costs honest users."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from leakmeter.plan import Policy
from leakmeter.report.blocks import Block, Mono, Paragraph, Part, Section, Steps, Strong
from leakmeter.report.sections.defenses import defense_effects
from leakmeter.report.sections.detection import arm_detections, fired_words
from leakmeter.report.sections.rate_limits import monthly, per_day
from leakmeter.report.surfaces import Surface, surfaces
from leakmeter.report.words import count, days, percent, span
from leakmeter.results import Arm, AuditResult
from leakmeter.verdict.arms import FIDELITIES
from leakmeter.verdict.policy import rule
from leakmeter.verdict.sentences import GOOD

_LEAD = (
    "What lowers the leak, by how much, and what it costs honest users. Every figure was measured in this audit; a step "
    "is named only where the intervals with and without it do not meet."
)
_LEVELS = (GOOD, *sorted(set(FIDELITIES) - {GOOD}))
"""A good copy first; if none was made, the nearest thing to one."""


def section(result: AuditResult, _: Path) -> Section:
    """Always shown, second: the verdict says what is, this what follows."""
    bare = [surface for surface in surfaces(result) if surface.defense == "none" and surface.best]
    worst = max(bare, key=_best_fidelity, default=None)
    steps = list(_mend(result))
    blocks: list[Block] = []
    if worst is not None:
        useful, useless = _sorted_out(result, worst, bare)
        steps += [*_limit(result, bare), *useful, *_watch(result, worst)]
        blocks += [Paragraph("Tried, without a clear gain: ", "; ".join(useless), ".", muted=True)] * bool(useless)
        blocks += _worth(result, bare)
    steps.append((Strong("Audit again"), " after each change, and whenever the model changes; ") + _COMPARE)
    return Section("what-to-do", "What to do now", _LEAD, [Steps(steps), *blocks], summary=True)


_COMPARE = (Mono("leakmeter compare"), " then says whether it leaks less.")


def _best_fidelity(surface: Surface) -> float:
    return 0.0 if surface.best is None else surface.best.fidelity


def _mend(result: AuditResult) -> Iterator[Sequence[Part]]:
    """An audit that cannot be believed, or is open, comes first."""
    for check in result.verdict.checks:
        if not check.ok:
            yield Strong("Mend the audit first."), f" The check “{check.name}” fails: {check.message}. {check.means}"
    for ruling in result.verdict.rulings:
        if ruling.outcome == "undecided":
            more = "More seeds, more test inputs or a larger budget decide it."
            yield Strong("Close what is open."), f" The policy's {ruling.rule}: {ruling.message}. {more}"


def _limit(result: AuditResult, bare: Sequence[Surface]) -> Iterator[Sequence[Part]]:
    found = _cheapest(bare)
    if found is None:
        most = max(arm.queries for surface in bare for arm in surface.attackers)
        yield (
            Strong("Keep the rate limit you have."),
            f" No attack made even a copy of {min(FIDELITIES):.0%} within {count(most)} queries, so no other limit follows.",
        )
        return
    fidelity, queries, arm = found
    now, then = per_day(result), monthly(queries)
    if then >= now:
        slow = days(queries / now)
        yield (
            Strong("Keep the rate limit you have."),
            f" At {count(now)} queries a day a {fidelity:.0%} copy takes {slow}.",
        )
        return
    assumed = "" if result.plan.get("queries_per_day") else ", which stands in because the plan names no limit"
    yield (
        Strong(f"Allow one client at most {count(then)} queries a day."),
        f" The cheapest {fidelity:.0%} copy ({arm.label}, seeing {arm.view}) then takes a month instead of "
        f"{days(queries / now)} at {count(now)} a day{assumed}. Honest clients who ask more than that have to wait; an "
        "attacker with many accounts does not.",
    )


def _cheapest(bare: Sequence[Surface]) -> tuple[float, int, Arm] | None:
    """The cheapest copy of the fidelity that matters most among those reached."""
    for fidelity in _LEVELS:
        found = [each for each in (surface.cheapest(fidelity) for surface in bare) if each is not None]
        if found:
            return fidelity, *min(found, key=lambda each: each[0])
    return None


def _sorted_out(result: AuditResult, worst: Surface, bare: Sequence[Surface]) -> tuple[list[Sequence[Part]], list[str]]:
    """Views and defenses that clearly help, strongest first, and those that do not."""
    options = [(surface, _show_less(worst, surface)) for surface in bare if surface is not worst]
    behind = {surface.defense: surface for surface in surfaces(result) if surface.view == worst.view}
    for effect in defense_effects(result):
        if effect.view == worst.view and effect.defense != "none":
            options.append((behind[effect.defense], _defend(effect.defense, effect.accuracy_loss, effect.distortion)))
    options.sort(key=lambda option: _best_fidelity(option[0]))
    useful, useless = [], []
    for surface, (what, cost) in options:
        if worst.best is None or surface.best is None:
            continue
        if surface.best.fidelity_interval.high < worst.best.fidelity_interval.low:
            useful.append((Strong(what), f" {_fall(worst.best, surface.best)}{_policy(result, surface)} {cost}"))
        else:
            ends = span(surface.best.fidelity_interval.low, surface.best.fidelity_interval.high)
            useless.append(f"{surface.name} ({percent(surface.best.fidelity)}, {ends})")
    return useful, useless


def _show_less(worst: Surface, other: Surface) -> tuple[str, str]:
    what = f"Show {other.view} instead of {worst.view}."
    return what, "The model's answers stay as they are; users see less beside them."


def _defend(defense: str, loss: float | None, distortion: float | None) -> tuple[str, str]:
    paid = [f"{percent(loss)} accuracy"] * (loss is not None)
    paid += [f"{percent(distortion)} of probability moved"] * (distortion is not None)
    cost = f"Honest users pay {' and '.join(paid)}." if paid else "What honest users pay was not measured."
    unaware = " Measured against attackers who do not know of it: try /adaptive." if "/adaptive" not in defense else ""
    return f"Put {defense} before the model.", cost + unaware


def _fall(before: Arm, after: Arm) -> str:
    ends = span(after.fidelity_interval.low, after.fidelity_interval.high)
    points = (before.fidelity - after.fidelity) * 100
    return f"The best copy falls by {points:.1f} points, from {percent(before.fidelity)} to {percent(after.fidelity)} ({ends})."


def _policy(result: AuditResult, surface: Surface) -> str:
    """What the policy would say if the API showed only this."""
    outcomes = {ruling.outcome for ruling in rule(Policy.model_validate(result.plan.get("policy") or {}), surface.arms)}
    if not outcomes:
        return ""
    if "exceeded" in outcomes:
        return " The policy stays exceeded."
    return " Whether the policy then holds is open." if "undecided" in outcomes else " The policy then holds."


def _watch(result: AuditResult, worst: Surface) -> Iterator[Sequence[Part]]:
    """Only detectors that see every run of the strongest attack, and leave honest data alone."""
    for (label, view, defense, detector), found in arm_detections(result).items():
        strongest = worst.best is not None and (label, view, defense) == (worst.best.label, worst.view, worst.defense)
        if strongest and all(each.fired_at is not None and each.benign is None for each in found):
            alarm = f" It would have raised an alarm on {label} at query {fired_words(found)}, and none on honest data."
            yield Strong(f"Watch the log with {detector}."), alarm


def _worth(result: AuditResult, bare: Sequence[Surface]) -> list[Block]:
    """What the copy costs its thief, and what it is worth to one who would have paid for answers."""
    prices, found = result.plan.get("prices") or {}, _cheapest(bare)
    if found is None or not prices.get("query"):
        return []
    fidelity, queries, arm = found
    each = prices["query"] + (prices.get("explanation", 0.0) if "+" in arm.view else 0.0)
    currency = prices.get("currency", "")
    return [
        Paragraph(
            Strong("In money: "),
            f"at {each:g} {currency} a query the {fidelity:.0%} copy costs {each * queries:,.2f} {currency}. Every "
            f"1,000 answers it then gives in your place are {1000 * each:,.2f} {currency} not billed, so it has paid for "
            f"itself after {count(queries)}.",
        )
    ]
