"""What to do now: which limit, view or defense lowers the leak, by how much, and what it costs honest users."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from leakmeter.plan import HonestCost, Policy
from leakmeter.report.blocks import Block, Mono, Paragraph, Part, Section, Steps, Strong
from leakmeter.report.remedies import remedy_steps
from leakmeter.report.sections.defenses import defense_effects
from leakmeter.report.sections.detection import arm_detections, fired_words
from leakmeter.report.sections.rate_limits import monthly, per_day
from leakmeter.report.surfaces import Surface, best_copy, surely_below, surfaces
from leakmeter.report.words import count, days, many, percent, span
from leakmeter.results import AuditResult, CellResult
from leakmeter.verdict.arms import FIDELITIES
from leakmeter.verdict.findings import GOOD
from leakmeter.verdict.policy import rule
from leakmeter.verdict.sentences import MONTH

_LEAD = (
    "What lowers the leak, by how much, and what it costs honest users, as measured in this audit. A change is advised "
    "only where the best copy made with it surely agrees less than the best without it; other tries may do better."
)
_AGAIN: Sequence[Part] = (
    Strong("Audit again"),
    " after each change, and whenever the model changes; ",
    Mono("leakmeter compare"),
    " then says whether it leaks less.",
)
_LEVELS = (GOOD, *sorted(set(FIDELITIES) - {GOOD}))
"""A good copy first; if none was made, the nearest thing to one."""


def section(result: AuditResult, _: Path) -> Section:
    """Always shown, second: the verdict says what is, this what follows."""
    bare = [surface for surface in surfaces(result) if surface.defense == "none" and surface.best]
    worst = max(bare, key=_best, default=None)
    steps = [*_mend(result), *_exact(result)]
    blocks = _worth(result, bare)
    sound = all(check.ok for check in result.verdict.checks)  # else a weak attack must not read as safety
    steps += remedy_steps(result, sound)
    if _cheapest(result, bare) is not None or (bare and sound):
        steps += _limit(result, bare)
    if worst is not None:
        useful, dear, useless = _sorted_out(result, worst, bare)
        steps += [*useful, *_watch(result, worst)]
        if dear:
            blocks.append(Paragraph("Lowers the leak, at more than ", Mono("[honest]"), " allows: ", " ".join(dear)))
        if useless and sound:
            blocks.append(Paragraph("Tried, without a clear gain: ", "; ".join(useless), ".", muted=True))
    steps.append(_AGAIN)
    return Section("what-to-do", "What to do now", _LEAD, [Steps(steps), *blocks], summary=True)


def _best(surface: Surface) -> float:
    return 0.0 if surface.best is None else best_copy(surface.best)


def _mend(result: AuditResult) -> Iterator[Sequence[Part]]:
    """An audit that cannot be believed, or is open, comes first."""
    for check in result.verdict.checks:
        if not check.ok:
            yield Strong("Mend the audit first."), f" The check “{check.name}” fails: {check.message}. {check.means}"
    for ruling in result.verdict.rulings:
        if ruling.outcome == "undecided":
            more = "More seeds, more test inputs or a larger budget decide it."
            yield Strong("Close what is open."), f" The policy's {ruling.rule}: {ruling.message}. {more}"


class _Copy(NamedTuple):
    """The copy that a limit has to make dear."""

    what: str
    queries: int
    """With so many it was made."""
    short: int
    """With so many no try measured one."""
    by: str
    view: str


def _exact(result: AuditResult) -> Iterator[Sequence[Part]]:
    """A model that can be read off has one remedy: to show something else."""
    for view, group in groupby(sorted(_exact_cells(result), key=lambda cell: cell.view), key=lambda cell: cell.view):
        cells = list(group)
        yield (
            Strong(f"Stop showing {view}."),
            f" {cells[0].attack} read the model itself off {count(min(map(_asked, cells)))} of such answers; a limit "
            "only delays that. Audit the model showing labels, or rounded values, to see what stops it.",
        )


def _limit(result: AuditResult, bare: Sequence[Surface]) -> Iterator[Sequence[Part]]:
    keep, copy, now = Strong("Keep the rate limit you have."), _cheapest(result, bare), per_day(result)
    if copy is None:
        most = max(arm.queries for surface in bare for arm in surface.attackers)
        least = min(FIDELITIES)
        best = max(
            (one for surface in bare for arm in surface.attackers for made in arm.copies for one in made), default=0
        )
        if best >= least:
            yield (
                Strong("Do not lean on the rate limit you have."),
                f" One copy within {count(most)} queries agrees on {best:.1%} of the test inputs. They are too few to "
                f"say that it surely reaches {least:.0%}, or that it does not: audit with more test inputs.",
            )
            return
        yield keep, f" No attack made a copy of even {least:.0%} within {count(most)} queries, so no other follows."
    elif copy.short / MONTH >= now:
        yield keep, f" At {count(now)} queries a day {copy.what} takes {days(copy.short / now)} or more."
    elif (limit := monthly(copy.short)) is None:
        yield (
            Strong("Do not count on a rate limit."),
            f" {copy.what[0].upper()}{copy.what[1:]} ({copy.by}, seeing {copy.view}) costs at most "
            f"{many(copy.queries, 'query', 'queries')}, {_before(copy)}; no limit that honest clients could live "
            "with is known to make it take a month. Show less, or audit with smaller stops to see what fewer queries "
            "buy.",
        )
    else:
        assumed = "" if result.plan.get("queries_per_day") else ", which stands in because the plan names no limit"
        yield (
            Strong(f"Allow one client at most {many(limit, 'query', 'queries')} a day."),
            f" Then {copy.what} ({copy.by}, seeing {copy.view}) takes a month or more, as no try had one after "
            f"{count(copy.short)} queries, instead of {days(copy.queries / now)} at most at {count(now)} a "
            f"day{assumed}. Honest clients who ask more have to wait; an attacker with many accounts does not.",
        )


def _before(copy: _Copy) -> str:
    """What is known of fewer queries."""
    if not copy.short:
        return "the fewest that were tried"
    return f"and no try was short of it beyond {count(copy.short)}"


def _cheapest(result: AuditResult, bare: Sequence[Surface]) -> _Copy | None:
    """The model itself, else the cheapest copy of the fidelity that matters most among those reached."""
    exact = min(_exact_cells(result), key=_asked, default=None)
    if exact is not None:
        return _Copy("the model itself", _asked(exact), _asked(exact) - 1, exact.attack, exact.view)
    for fidelity in _LEVELS:
        found = [each for each in (surface.cheapest(fidelity) for surface in bare) if each is not None]
        if found:
            cost, arm = min(found, key=lambda each: each[0].cheapest or 0)
            made = cost.cheapest or 1
            what = f"{'an' if fidelity == 0.8 else 'a'} {fidelity:.0%} copy"
            return _Copy(what, made, cost.short if cost.tries else made - 1, arm.label, arm.view)
    return None


def _exact_cells(result: AuditResult) -> list[CellResult]:
    bare = [cell for cell in result.cells if cell.defense == "none" and not cell.control]
    return [cell for cell in bare if cell.findings is not None and cell.findings.exact]


def _asked(cell: CellResult) -> int:
    return cell.budget if cell.spending is None else cell.spending.queries


def _sorted_out(
    result: AuditResult, worst: Surface, bare: Sequence[Surface]
) -> tuple[list[Sequence[Part]], list[str], list[str]]:
    """Views and defenses that clearly help, strongest first; those that cost too much; those that do not help."""
    options = [(surface, _show_less(worst, surface), True) for surface in bare if surface is not worst]
    behind = {surface.defense: surface for surface in surfaces(result) if surface.view == worst.view}
    bounds = HonestCost.model_validate(result.plan.get("honest") or {})
    options += [
        (
            behind[each.defense],
            _defend(each.defense, each.accuracy_loss, each.distortion),
            bounds.allows(each.accuracy_loss, each.distortion),
        )
        for each in defense_effects(result)
        if each.view == worst.view and each.defense != "none"
    ]
    options.sort(key=lambda option: _best(option[0]))
    useful: list[Sequence[Part]] = []
    dear, useless = [], []
    for surface, (what, cost), allowed in options:
        says = f" {_fall(worst, surface)}{_policy(result, surface)} {cost}"
        if not surely_below(surface, worst):
            useless.append(f"{surface.name}, {_reached(surface)}")
        elif allowed:
            useful.append((Strong(what), says))
        else:
            dear.append(f"{surface.defense}.{says}")
    return useful, dear, useless


def _show_less(worst: Surface, other: Surface) -> tuple[str, str]:
    what = f"Show {other.view} instead of {worst.view}."
    return what, "The model's answers stay as they are; users see less beside them."


def _defend(defense: str, loss: float | None, distortion: float | None) -> tuple[str, str]:
    paid = [f"{percent(loss)} accuracy"] * (loss is not None)
    paid += [f"{percent(distortion)} of probability moved"] * (distortion is not None)
    cost = f"Honest users pay {' and '.join(paid)}." if paid else "What honest users pay was not measured."
    known = (
        "" if "/adaptive" in defense else f" Attackers did not know of it: {defense}/adaptive measures those who do."
    )
    return f"Put {defense} before the model.", cost + known


def _fall(before: Surface, after: Surface) -> str:
    by, start = (_best(before) - _best(after)) * 100, percent(_best(before))
    return f"The best copy falls by {by:.1f} points, from {start} to {_reached(after)}."


def _reached(surface: Surface) -> str:
    ends = "" if surface.reach is None else f" ({span(surface.reach.low, surface.reach.high)})"
    return f"{percent(_best(surface))}{ends}"


def _policy(result: AuditResult, surface: Surface) -> str:
    """What the policy would say if the API showed only this."""
    policy, real = Policy.model_validate(result.plan.get("policy") or {}), result.plan.get("data") is not None
    outcomes = {ruling.outcome for ruling in rule(policy, surface.arms, real=real)}
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
    prices, copy = result.plan.get("prices") or {}, _cheapest(result, bare)
    if copy is None or not prices.get("query"):
        return []
    each = prices["query"] + (prices.get("explanation", 0.0) if "+" in copy.view else 0.0)
    currency = prices.get("currency", "")
    return [
        Paragraph(
            Strong("In money: "),
            f"at {each:g} {currency} a query {copy.what} costs {each * copy.queries:,.2f} {currency}. Every 1,000 "
            f"answers it then gives in your place are {1000 * each:,.2f} {currency} not billed: after "
            f"{count(copy.queries)} it has paid for itself.",
        )
    ]
