"""The charts of a report. Every series is named where it ends, so that colour is never the only sign."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Any, NamedTuple

from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator, PercentFormatter

from leakmeter.report.facts import DefenseRow, Surface
from leakmeter.report.svg import INK, MUTED, RULE, SERIES, drawing, plain_text, to_svg
from leakmeter.report.words import percent, short, surface
from leakmeter.results import Arm, Certified


class End(NamedTuple):
    """Where a line ends, and what it is called."""

    height: float
    label: str
    color: str = MUTED
    marker: str = ""
    x: float | None = None
    """None: the line crosses the whole chart."""


_WIDTH, _HEIGHT = 430, 310
_AXES = (0.12, 0.145, 0.575, 0.825)
_MARKERS = ("o", "s", "^", "D", "v", "P")
_MOST = 8
"""Curves in one chart: more cannot be told apart, and the table has them all."""
_LABEL = 21
"""Characters of a label that fit beside the axes."""
_LINE = 0.056
"""The height of a line of text, as a part of the axis."""


COSTS = {"accuracy_loss": "accuracy lost by honest users", "distortion": "probability moved for honest users"}


def cost_chart(shown: Surface, name: str) -> str:
    """Fidelity against queries: a line an arm with its interval as a band, controls dashed."""
    arms = drawn(shown)
    with drawing(_WIDTH, _HEIGHT) as figure:
        axes = figure.add_axes(_AXES)
        axes.set_xscale("log")
        axes.axhline(1, color=MUTED, linewidth=0.8)
        ends = [End(1.0, "the model itself")]
        if shown.untrained is not None:
            axes.axhline(shown.untrained, color=MUTED, linewidth=1, linestyle=(0, (1, 2)))
            ends.append(End(shown.untrained, "untrained"))
        colors = cycle(zip(SERIES, _MARKERS, strict=True))
        for arm in arms:
            color, marker = (MUTED, "o") if arm.control else next(colors)
            last = _curve(axes, arm, color, marker)
            label = plain_text(arm.label, _LABEL) + ("\ncontrol" if arm.control else "")
            ends.append(End(arm.fidelity, label, color, marker, last))
        _query_axis(axes, sorted({point[0] for arm in arms for point in arm.curve if point[0] > 0}))
        axes.set_xlabel("queries")
        _fidelity_axis(axes, "fidelity")
        _name_ends(axes, ends)
        title = f"What a copy costs when the API shows {surface(shown.view, shown.defense)}"
        return to_svg(figure, name, title, "; ".join(map(_spoken, arms)) or "no curve")


def drawn(shown: Surface) -> list[Arm]:
    """The arms that get a line: the strongest attackers first, then controls."""
    return sorted(shown.arms, key=lambda arm: (arm.control, -arm.fidelity))[:_MOST]


def defense_chart(rows: Sequence[DefenseRow], cost: str, name: str) -> str:
    """Best copy under one view against what honest users lose: `accuracy_loss` or `distortion`. Lower left is best."""
    points = [(getattr(row, cost), row) for row in rows if getattr(row, cost) is not None]
    with drawing(_WIDTH, _HEIGHT) as figure:
        axes = figure.add_axes(_AXES)
        ends = []
        for (lost, row), color, marker in zip(points[:_MOST], cycle(SERIES), cycle(_MARKERS), strict=False):
            axes.plot(lost, row.fidelity, marker, color=color, markersize=7, clip_on=False)
            ends.append(End(row.fidelity, plain_text(row.defense, _LABEL), color, marker, lost))
        most = max((lost for lost, _ in points), default=0.0)
        axes.set_xlim(min(0.0, *(lost for lost, _ in points)), 1.15 * most or 0.01)
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=None))
        axes.set_xlabel(COSTS[cost])
        _fidelity_axis(axes, "fidelity of the best copy")
        _name_ends(axes, ends)
        told = "; ".join(f"{row.defense}: {percent(row.fidelity)} at {percent(lost)}" for lost, row in points)
        return to_svg(figure, name, f"Fidelity of the best copy against {COSTS[cost]}", told)


def certified_chart(curves: Sequence[Certified], name: str) -> str:
    """Certified accuracy against the radius."""
    with drawing(_WIDTH, _HEIGHT) as figure:
        axes = figure.add_axes(_AXES)
        ends = []
        for curve, color in zip(curves[:_MOST], cycle(SERIES), strict=False):
            radii, values = zip(*sorted(curve.points), strict=True) if curve.points else ((0.0,), (0.0,))
            axes.step(radii, values, where="pre", color=color)  # between two radii the larger one is what is known
            ends.append(End(values[-1], plain_text(curve.label, _LABEL), color, "s", radii[-1]))
        axes.set_xlim(left=0)
        axes.set_xlabel(f"{plain_text(curves[0].norm, 12)} radius")
        _fidelity_axis(axes, "certified accuracy")
        _name_ends(axes, ends)
        told = "; ".join(f"{curve.label}: {len(curve.points)} radii" for curve in curves)
        return to_svg(figure, name, "Certified accuracy by radius", told)


def _curve(axes: Any, arm: Arm, color: str, marker: str) -> int | None:
    """Draws one arm; returns the queries at which it ends."""
    points = [point for point in arm.curve if point[0] > 0]
    if not points:
        return None
    queries, means, lows, highs = zip(*points, strict=True)
    line = "--" if arm.control else "-"
    axes.plot(queries, means, line, color=color, marker=marker, markersize=3 if arm.control else 4)
    if len(points) > 1:
        axes.fill_between(queries, lows, highs, color=color, alpha=0.13, linewidth=0)
    else:
        axes.vlines(queries, lows, highs, color=color, linewidth=1)
    return int(queries[-1])


def _fidelity_axis(axes: Any, name: str) -> None:
    """Always from 0 to 100%: charts of one page are read against each other."""
    axes.set_ylim(0, 1.04)
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.set_ylabel(name, labelpad=2)


def _query_axis(axes: Any, stops: list[int]) -> None:
    """Ticks where the curve has points, if they are few enough to read."""
    if stops:
        axes.set_xlim(stops[0] / 1.15, stops[-1] * 1.15)
    axes.xaxis.set_major_locator(FixedLocator(stops) if 0 < len(stops) <= 6 else LogLocator(numticks=7))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))


def _name_ends(axes: Any, ends: Sequence[End]) -> None:
    """Names beside the axes at the height where each line ends, moved apart where they would touch."""
    ordered = sorted(ends, key=lambda end: end.height)
    heights = [end.height for end in ordered]
    lines = [1 + end.label.count("\n") for end in ordered]
    for _ in range(60):
        for low in range(len(heights) - 1):
            lack = _LINE * (lines[low] + lines[low + 1]) / 2 - (heights[low + 1] - heights[low])
            if lack > 0:
                heights[low] -= lack / 2
                heights[low + 1] += lack / 2
    beside = {"transform": axes.get_yaxis_transform(), "clip_on": False}
    for end, height in zip(ordered, heights, strict=True):
        if end.x is not None:
            start = axes.transAxes.inverted().transform(axes.transData.transform((end.x, end.height)))[0]
            axes.plot((start, 1.0), (end.height, end.height), color=end.color, linewidth=0.6, alpha=0.5, **beside)
        axes.plot((1.0, 1.025), (end.height, height), color=RULE, linewidth=0.8, **beside)
        axes.plot(1.045, height, end.marker, color=end.color, markersize=4, **beside)
        ink = MUTED if end.color == MUTED else INK
        axes.text(1.075, height, end.label, color=ink, fontsize=10.5, va="center", linespacing=1.1, **beside)


def _spoken(arm: Arm) -> str:
    first, last = arm.curve[0], arm.curve[-1]
    role = "control " if arm.control else ""
    return (
        f"{role}{arm.label}: {percent(first[1])} at {short(first[0])} queries, {percent(last[1])} at {short(last[0])}"
    )
