"""What a copy costs: a curve of fidelity against queries for each view, and the queries to a given fidelity."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from leakmeter.report.blocks import Block, Chart, Entry, Folded, Heading, Numeric, Paragraph, Row, Section, Table
from leakmeter.report.charts import MOST, MUTED, End, label, name_ends, query_axis, share_axis, styles
from leakmeter.report.surfaces import Surface, surfaces
from leakmeter.report.words import cost_words, count, percent, short, span
from leakmeter.results import Arm, AuditResult


def section(result: AuditResult, _: Path) -> Section:
    """Shown even where nothing was scored: a reader looks for it."""
    shown = surfaces(result)
    bare = [cost_chart(each) for each in shown if each.defense == "none"]
    defended = [cost_chart(each) for each in shown if each.defense != "none"]
    blocks: list[Block] = [*bare]
    if defended:
        blocks.append(Folded("The same behind each defense", defended))
    if shown:
        blocks += [Heading("Queries to a copy of a given fidelity"), _costs(shown)]
        blocks += [Heading("How good the final copies are"), _finals(shown)]
    else:
        blocks.append(Paragraph("No copy was scored."))
    return Section("copy-cost", "What a copy costs", _lead(result), blocks)


def cost_chart(shown: Surface) -> Chart:
    """Fidelity against queries: a line an arm with its worst and best copy as a band, controls dashed."""
    title = f"Fidelity by queries, showing {shown.name}"
    rows = [
        Row(arm.label, count(queries), percent(mean), span(low, high), control=arm.control)
        for arm in shown.arms
        for queries, mean, low, high in arm.curve
    ]
    numbers = Table(title, ("Attack", Numeric("Queries"), Numeric("Fidelity"), Numeric("Interval")), rows)
    return Chart(title, "; ".join(map(_spoken, drawn(shown))) or "no curve", partial(_draw, shown), numbers)


def drawn(shown: Surface) -> list[Arm]:
    """The arms that get a line: the strongest attackers first, then controls."""
    return sorted(shown.arms, key=lambda arm: (arm.control, -arm.fidelity))[:MOST]


def _lead(result: AuditResult) -> str:
    seeds = max((arm.seeds for arm in result.verdict.arms), default=0)
    tested = f" ({count(result.victim.test_size)} of {result.victim.test})" if result.victim.test_size else ""
    return (
        f"Fidelity is how often the copy and the model name the same class on inputs the attacker never saw{tested}. "
        f"{f'Lines are means over {seeds} tries, bands reach from the worst try to the best; d' if seeds > 1 else 'D'}"
        "ashed lines are controls, there for comparison. Intervals are 95% and of what the attack reaches on average "
        "over all seeds and inputs: few seeds say little about that."
    )


def _costs(shown: list[Surface]) -> Table:
    return Table(
        "By the best try, between the points of its curve; “not within” means that the budget ended first, "
        "“not surely” that a copy measured so and test inputs are too few to be sure",
        ("Attack", *(Numeric(f"{cost.fidelity:.0%}") for cost in shown[0].arms[0].costs)),
        {
            f"showing {each.name}": [
                Row(arm.label, *(Entry(*cost_words(arm, cost)) for cost in arm.costs), control=arm.control)
                for arm in each.arms
            ]
            for each in shown
        },
    )


def _finals(shown: list[Surface]) -> Table:
    """What stands beside a fidelity: other tries and seeds, class by class, and what ignoring the input would get."""
    names = ("Mean fidelity", "Worst to best try", "All seeds", "Classes alike", "Worst class", "One class always")
    return Table(
        "The final copies; a copy that always names one class agrees as often as the last column says",
        ("Attack", *map(Numeric, names)),
        {f"showing {each.name}": [_final(arm) for arm in each.arms] for each in shown},
    )


def _final(arm: Arm) -> Row:
    tries = span(min(arm.copies[-1]), max(arm.copies[-1])) if arm.copies else "–"
    ends = span(arm.fidelity_interval.low, arm.fidelity_interval.high)
    classes = map(percent, (arm.balanced, arm.worst, arm.constant))
    return Row(arm.label, percent(arm.fidelity), tries, ends, *classes, control=arm.control)


def _spoken(arm: Arm) -> str:
    first, last = arm.curve[0], arm.curve[-1]
    role = "control " if arm.control else ""
    begun = f"{role}{arm.label}: {percent(first[1])} at {short(first[0])} quer{'y' if first[0] == 1 else 'ies'}"
    return begun if first == last else f"{begun}, {percent(last[1])} at {short(last[0])}"


def _draw(shown: Surface, axes: Any) -> None:
    arms = drawn(shown)
    axes.axhline(1, color=MUTED, linewidth=0.8)
    ends = [End(1.0, "the model itself")]
    if shown.untrained is not None:
        axes.axhline(shown.untrained, color=MUTED, linewidth=1, linestyle=(0, (1, 2)))
        ends.append(End(shown.untrained, "untrained"))
    colors = styles()
    for arm in arms:
        color, marker = (MUTED, "o") if arm.control else next(colors)
        last = _curve(axes, arm, color, marker)
        ends.append(End(arm.fidelity, label(arm.label) + ("\ncontrol" if arm.control else ""), color, marker, last))
    query_axis(axes, sorted({point[0] for arm in arms for point in arm.curve if point[0] > 0}))
    share_axis(axes, "fidelity")
    name_ends(axes, ends)


def _curve(axes: Any, arm: Arm, color: str, marker: str) -> int | None:
    """Draws one arm; returns the queries at which it ends."""
    points = [point for point in arm.curve if point[0] > 0]
    if not points:
        return None
    queries, means, *ends = zip(*points, strict=True)
    lows, highs = ends if not arm.copies else zip(*((min(at), max(at)) for at in _drawn_copies(arm)), strict=True)
    line = "--" if arm.control else "-"
    axes.plot(queries, means, line, color=color, marker=marker, markersize=3 if arm.control else 4)
    if len(points) > 1:
        axes.fill_between(queries, lows, highs, color=color, alpha=0.13, linewidth=0)
    else:
        axes.vlines(queries, lows, highs, color=color, linewidth=1)
    return int(queries[-1])


def _drawn_copies(arm: Arm) -> list[list[float]]:
    return [rates for point, rates in zip(arm.curve, arm.copies, strict=True) if point[0] > 0]
