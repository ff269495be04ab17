"""What the charts of a report share. Every series is named where it ends, so that colour is never the only sign.

Colours are stand-ins that `svg` turns into the page's own: one drawing serves light, dark and print.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import Any, NamedTuple

from leakmeter.report.words import plain_text, short

INK, MUTED, RULE = "#0000f0", "#0000f1", "#0000f2"
SERIES = tuple(f"#00000{k}" for k in range(1, 7))
MOST = 8
"""Series in one chart: more cannot be told apart, and the table has them all."""
_MARKERS = ("o", "s", "^", "D", "v", "P")
_LABEL = 21
"""Characters of a label that fit beside the axes."""
_TICK = 0.07
"""How far apart numbers stand along the axis at least, as a part of it."""
_LINE, _TOP = 0.056, 1.02
"""The height of a line of text, as a part of the axis, and where the highest name stands at most."""


class End(NamedTuple):
    """Where a line ends, and what it is called."""

    height: float
    label: str
    color: str = MUTED
    marker: str = ""
    x: float | None = None
    """None: the line crosses the whole chart."""


def styles() -> Iterator[tuple[str, str]]:
    """A colour and a marker for each series."""
    return cycle(zip(SERIES, _MARKERS, strict=True))


def label(text: str) -> str:
    """A name cut to what fits beside the axes."""
    return plain_text(text, _LABEL)


def share_axis(axes: Any, name: str) -> None:
    """Always from 0 to 100%: charts of one page are read against each other."""
    from matplotlib.ticker import PercentFormatter

    axes.set_ylim(0, 1.04)
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.set_ylabel(name, labelpad=2)


def query_axis(axes: Any, stops: Sequence[int]) -> None:
    """Numbers of queries as powers; ticks where a curve has points, if they are few enough to read."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

    axes.set_xscale("log")
    if stops:
        axes.set_xlim(stops[0] / 1.15, stops[-1] * 1.15)
    ticks = _readable(stops)
    axes.xaxis.set_major_locator(FixedLocator(ticks) if 0 < len(stops) <= 6 else LogLocator(numticks=7))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axes.set_xlabel("queries")


def _readable(stops: Sequence[int]) -> list[int]:
    """Stops without those whose number would lie on that of the one behind it."""
    apart = _TICK * math.log(stops[-1] / stops[0]) if stops else 0.0
    kept: list[int] = []
    for stop in reversed(stops):
        if not kept or math.log(kept[0] / stop) >= apart:
            kept.insert(0, stop)
    return kept


def name_ends(axes: Any, ends: Sequence[End]) -> None:
    """Names beside the axes at the height where each line ends, moved apart where they would touch."""
    ordered = sorted(ends, key=lambda end: end.height)
    beside = {"transform": axes.get_yaxis_transform(), "clip_on": False}
    for end, height in zip(ordered, _apart(ordered), strict=True):
        if end.x is not None:
            start = axes.transAxes.inverted().transform(axes.transData.transform((end.x, end.height)))[0]
            axes.plot((start, 1.0), (end.height, end.height), color=end.color, linewidth=0.6, alpha=0.5, **beside)
        axes.plot((1.0, 1.025), (end.height, height), color=RULE, linewidth=0.8, **beside)
        axes.plot(1.045, height, end.marker, color=end.color, markersize=4, **beside)
        ink = MUTED if end.color == MUTED else INK
        axes.text(1.075, height, end.label, color=ink, fontsize=10.5, va="center", linespacing=1.1, **beside)


def _apart(ordered: Sequence[End]) -> list[float]:
    heights = [end.height for end in ordered]
    lines = [1 + end.label.count("\n") for end in ordered]
    for _ in range(60):
        for low in range(len(heights) - 1):
            lack = _LINE * (lines[low] + lines[low + 1]) / 2 - (heights[low + 1] - heights[low])
            if lack > 0:
                heights[low] -= lack / 2
                heights[low + 1] += lack / 2
    above = max(0.0, heights[-1] - _TOP)  # names of copies that are all good would leave the picture
    return [height - above for height in heights]
