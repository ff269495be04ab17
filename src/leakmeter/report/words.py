"""Numbers and outcomes in words, the same in every format."""

from __future__ import annotations

import re

from leakmeter.report.blocks import Tone
from leakmeter.results import Arm, CopyCost, Verdict, VictimFacts

_OUTCOMES = {"pass": "Policy met", "exceeded": "Policy exceeded", "undecided": "Inconclusive"}
_TONES: dict[str, Tone] = {"pass": "good", "exceeded": "bad", "undecided": "unsure"}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ufffe\uffff\ud800-\udfff]")


def outcome_words(verdict: Verdict) -> str:
    """The outcome; an audit without a policy has measured, not passed."""
    if verdict.outcome in ("pass", "measured") and not verdict.rulings:
        return "Measured, no policy set"
    return _OUTCOMES[verdict.outcome]


def tone(outcome: str, *, decided: bool = True) -> Tone:
    """How an outcome is coloured; without a policy nothing is good."""
    return "plain" if outcome == "measured" or (outcome == "pass" and not decided) else _TONES[outcome]


def plain_text(text: str, limit: int = 200) -> str:
    """Text that XML can hold, on one line, cut to `limit` characters."""
    text = _CONTROL.sub(" ", text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def percent(value: float | None) -> str:
    """One decimal; a dash for what was not measured."""
    return "–" if value is None else f"{value:.1%}"


def count(value: float | None) -> str:
    """Thousands apart; a dash for what was not measured."""
    return "–" if value is None else f"{value:,.0f}"


def span(low: float, high: float) -> str:
    """An interval of rates."""
    return f"{percent(low)} to {percent(high)}"


def many(number: int, noun: str, nouns: str | None = None) -> str:
    """1 run, 2 runs; 1 query, 2 queries."""
    return f"{count(number)} {noun if number == 1 else nouns or noun + 's'}"


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
    return "less than a day" if value < 1 else many(round(value), "day")


def surface_words(view: str, defense: str) -> str:
    """What the API shows."""
    return view if defense == "none" else f"{view} behind {defense}"


def cost_words(arm: Arm, cost: CopyCost) -> tuple[str, str]:
    """Queries to a fidelity by the best try made, and by the attack on average; no closer than the curve's points."""
    if cost.tries is None:  # measured before costs were bracketed
        return (f"not within {count(arm.queries)}" if cost.queries is None else f"about {count(cost.queries)}"), ""
    tries = f"{cost.tries.reached} of {cost.tries.made} {'try' if cost.tries.made == 1 else 'tries'}"
    if cost.made is None:
        return f"not {'surely ' if cost.tries.reached else ''}within {count(arm.queries)}", tries
    return f"{count(cost.made_low)} to {count(cost.made)}" if cost.made_low < cost.made else count(cost.made), tries


def class_name(victim: VictimFacts, number: int) -> str:
    """A class's own name where the owner gave one."""
    return victim.class_names[number] if number < len(victim.class_names) else f"class {number}"


def copies_words(arm: Arm) -> str:
    """The copies made, and what the attack reaches on average with all seeds and inputs."""
    ends = span(arm.fidelity_interval.low, arm.fidelity_interval.high)
    if not arm.copies or arm.seeds == 1:
        return f"one try; all seeds {ends}" if arm.seeds == 1 else ends
    return f"{percent(min(arm.copies[-1]))} to {percent(max(arm.copies[-1]))} in {arm.seeds} tries; all seeds {ends}"
