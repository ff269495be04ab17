"""What the numbers mean: the policy's lines, who passed them, and how far to trust it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from leakmeter.evaluation.intervals import CONFIDENCE, exact
from leakmeter.plan import Policy
from leakmeter.results import Check, Ruling, Verdict
from leakmeter.watch.coalitions import Coalition
from leakmeter.watch.record import ClientCopy, FalseAlarms, Others
from leakmeter.watch.state import Reading

_THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
_BROKEN = 0.5  # of all lines: more than this, and what is left says little
_NEAR = 0.1
SOON = "fidelity {:.0%}, or within a day"


def line_of(policy: Policy, otherwise: float) -> float:
    """The fidelity that no client may hold: the lower of the policy's lines."""
    lines = [limit.value for limit in (policy.max_fidelity,) if limit is not None]
    lines += [floor.fidelity for floor in (policy.min_copy_cost,) if floor is not None]
    return min(lines, default=otherwise)


def false_alarms(clients: list[ClientCopy], small: int, line: float) -> list[FalseAlarms]:
    """At each threshold and of each detector, over the honest clients looked at and those too small to be looked at."""
    honest = [each for each in clients if each.honest]
    n = len(honest) + small
    if not n:
        return []

    def rate(what: str, flagged: int) -> FalseAlarms:
        return FalseAlarms(what=what, honest=n, flagged=flagged, interval=exact(flagged, n))

    found = [
        rate(f"fidelity {threshold:.0%}", sum(each.fidelity >= threshold for each in honest))
        for threshold in sorted({*_THRESHOLDS, line})
    ]
    found.append(rate(SOON.format(line), sum(each.alarm or each.soon for each in honest)))
    for name in dict.fromkeys(fired.detector for each in honest for fired in each.detectors):
        hits = sum(f.fired_at is not None for each in honest for f in each.detectors if f.detector == name)
        found.append(rate(name, hits))
    return found


def falsely_alike(found: list[Coalition], honest: int) -> FalseAlarms:
    """How many honest clients the rule for likeness would put together with another."""
    flagged = sum(len(each.clients) for each in found)
    return FalseAlarms(what="asking alike", honest=honest, flagged=flagged, interval=exact(flagged, honest))


def judged(
    policy: Policy,
    line: float,
    clients: list[ClientCopy],
    rates: list[FalseAlarms],
    checks: list[Check],
    others: Sequence[Others] = (),
) -> Verdict:
    """The verdict; declared honest clients break no policy."""
    asked = [each for each in clients if not each.honest]
    rulings = [] if policy == Policy() else [_rule(policy, line, asked)]
    outcomes = {ruling.outcome for ruling in rulings}
    outcome: Literal["pass", "measured", "exceeded", "undecided"] = "pass" if rulings else "measured"
    if "exceeded" in outcomes:
        outcome = "exceeded"
    elif "undecided" in outcomes or not all(check.ok for check in checks):
        outcome = "undecided"
    alarms = [each for each in asked if each.alarm]
    return Verdict(
        outcome=outcome,
        headline=_headline(asked, line, alarms),
        sentences=[
            *(_alarm(each, _beside(line, rates)) for each in alarms),
            *(_warning(each, line, _beside(line, rates, soon=True)) for each in asked if each.soon),
            *_rest(others, line),
        ],
        arms=[],
        rulings=rulings,
        checks=checks,
    )


def _rule(policy: Policy, line: float, clients: list[ClientCopy]) -> Ruling:
    """Exceeded: a copy is surely above the line, all copies looked at; pass: surely none is."""
    name = f"no client holds a copy of {line:.0%}"
    cheap = policy.min_copy_cost
    if policy.max_fidelity is None and cheap is not None:
        name += f" for less than {cheap.queries:,} queries"
        clients = [each for each in clients if each.queries < cheap.queries]
    copies = sum(len(each.thieves) for each in clients)
    level = 1 - (1 - CONFIDENCE) / max(1, copies)
    for each in clients:
        ends = exact(each.fidelity * each.interval.n, each.interval.n, level)
        if ends.low > line:
            span = f"{ends.low:.1%} to {ends.high:.1%}, all {copies:,} copies allowed for"
            message = f"{each.client} holds {each.fidelity:.1%} ({span})"
            return Ruling(rule=name, outcome="exceeded", message=message)
    open_ones = [each for each in clients if each.interval.high >= line]
    if open_ones:
        best = open_ones[0]
        message = f"{best.client} holds {best.fidelity:.1%}, which {best.interval.n:,} test inputs cannot tell from it"
        return Ruling(rule=name, outcome="undecided", message=message)
    best_words = (
        f"the best copy, of {clients[0].client}, has {clients[0].fidelity:.1%}" if clients else "nobody has a copy"
    )
    return Ruling(rule=name, outcome="pass", message=best_words)


def _headline(clients: list[ClientCopy], line: float, alarms: list[ClientCopy]) -> str:
    if not clients:
        return "No client has asked enough to be looked at"
    best = clients[0]
    who = f"{len(alarms)} of {len(clients)} looked at reach {line:.0%}" if alarms else f"none reaches {line:.0%}"
    soon = sum(each.soon for each in clients)
    who += f", {soon} will within a day" if soon else ""
    return f"The best copy is that of {best.client}: {best.fidelity:.1%} with {best.queries:,} queries; {who}"


def _alarm(each: ClientCopy, beside: str) -> str:
    ends = f"{each.interval.low:.1%} to {each.interval.high:.1%}"
    return f"{each.client} holds a copy of {each.fidelity:.1%} ({ends}) after {each.queries:,} queries; {beside}"


def _warning(each: ClientCopy, line: float, beside: str) -> str:
    assert each.forecast is not None
    ends = f"{each.interval.low:.1%} to {each.interval.high:.1%}"
    return (
        f"{each.client} reaches {line:.0%} within a day if it goes on with {each.forecast.rate:,.0f} queries a day: it "
        f"holds a copy of {each.fidelity:.1%} ({ends}) after {each.queries:,} queries; {beside}"
    )


def _rest(others: Sequence[Others], line: float) -> list[str]:
    """What is said of those whom no alarm names: that they are one cannot be seen, what they would hold then can."""
    if not others:
        return []
    everybody = others[-1]
    copy = f"{everybody.fidelity:.1%} ({everybody.interval.low:.1%} to {everybody.interval.high:.1%})"
    said = f"{everybody.accounts:,} other clients are named by no alarm; together their answers buy a copy of {copy}"
    if everybody.interval.high < line:
        return [f"{said}: whichever of them are one, none of them holds a copy of {line:.0%} that we could make"]
    busiest = "".join(f", those of the {each.accounts} busiest {each.fidelity:.1%}" for each in others[:-1])
    return [
        f"{said}{busiest}: whether some of them are one thief's is not known, as accounts that ask as honest users do "
        "cannot be told from honest users by what they ask; a column of who pays or of addresses ([log] group or "
        "network) can tell"
    ]


def _beside(line: float, rates: list[FalseAlarms], soon: bool = False) -> str:
    """The false alarms at the line, which stand beside every alarm."""
    what = SOON.format(line) if soon else f"fidelity {line:.0%}"
    found = next((rate for rate in rates if rate.what == what), None)
    if found is None:
        return "no client is declared honest, so how often this alarm is false is not known"
    ends = f"{found.interval.low:.1%} to {found.interval.high:.1%}"
    too = "reach that line too, or will within a day" if soon else "reach that line too"
    return f"{found.flagged} of {found.honest} honest clients {too} (false alarms {ends})"


def checked(
    reading: Reading, seen: int, clients: list[ClientCopy], lower: int, line: float, constant: float
) -> list[Check]:
    """Whether the log and the looking allow a verdict."""
    share = reading.broken / max(1, reading.lines)
    least = min((each.fidelity for each in clients if each.by == "client"), default=0.0)
    return [
        Check(
            name="somebody asked",
            ok=seen > 0,
            message=f"{seen:,} clients are known",
            raised_if="neither this log nor any before it holds a query",
            means="nothing was looked at: see whether the log is the right one",
        ),
        Check(
            name="the log can be read",
            ok=share <= _BROKEN and not reading.unreadable,
            message=f"{reading.broken:,} of {reading.lines:,} lines are broken"
            + "".join(f"; {each}" for each in reading.unreadable[:3]),
            raised_if="more than half of the lines, or a whole file, cannot be read",
            means="clients may have asked what nobody counted",
        ),
        Check(
            name="everybody who matters was looked at",
            ok=not lower or least < line - _NEAR,
            message=f"{lower:,} clients rank lower and were not looked at; the least copy looked at has {least:.1%}",
            raised_if="clients were left out although the last one looked at comes near the line",
            means="one of those left out may have passed it; raise train in [log]",
        ),
        Check(
            name="the line means something",
            ok=constant < line,
            message=f"always naming one class agrees on {constant:.1%}; the line is {line:.1%}",
            raised_if="a copy that needs no query is above the line",
            means="everybody passes such a line; set it higher",
        ),
    ]
