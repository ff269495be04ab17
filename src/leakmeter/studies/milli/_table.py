"""The tables and figures of the studies of Milli et al.: what the paper says, and the same thing measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, inf, log
from pathlib import Path
from statistics import fmean
from typing import Any

from leakmeter.errors import Inconclusive
from leakmeter.evaluation.cheaper import cheaper, queries_to
from leakmeter.evaluation.crossing import Curve
from leakmeter.evaluation.intervals import median_interval
from leakmeter.studies.rows import NONE, Row, intervals

MEMBERSHIP, GRADIENTS, SMOOTHGRAD = "membership", "membership + gradient", "membership + SmoothGrad"
SMOOTHGRAD_1000 = "membership + SmoothGrad at 1000 σ_D"
Found = tuple[str, tuple[float, float] | None]
"""In words, and between which two numbers it lies, to hold against a goal."""
Measure = Callable[["Measured"], Found]
_NOT_RUN: Found = ("not run", None)


@dataclass(frozen=True)
class Measured:
    """The accuracy of every cell of one panel: arm to queries to one value a seed."""

    victim: float
    """The mean of the victims' own: every seed has its own."""
    arms: dict[str, dict[int, list[float]]]
    inputs: int = 10_000
    """On how many test inputs."""

    @property
    def any(self) -> bool:
        """Whether anything was measured."""
        return any(self.arms.values())

    @property
    def seeds(self) -> int:
        """How many every measured point has."""
        return min((len(values) for points in self.arms.values() for values in points.values()), default=0)

    def curves(self, arm: str) -> list[Curve]:
        """One curve a seed, over the numbers of queries that every seed has."""
        points = self.arms.get(arm, {})
        seeds = min((len(values) for values in points.values()), default=0)
        return [[(n, values[seed]) for n, values in sorted(points.items())] for seed in range(seeds)]


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper and how to measure the same thing here."""

    panel: str
    paper: str
    measure: Measure
    goal: float | None = None
    """What the number must reach."""

    def row(self, measured: Measured) -> Row:
        """The claim beside what was measured."""
        told, ends = self.measure(measured)
        reached = None if self.goal is None or ends is None else [end >= self.goal for end in ends]
        met = None if reached is None or reached[0] != reached[1] else reached[0]
        return Row(self.panel, told, f"victim {measured.victim:.1%} accurate", measured.seeds, self.paper or NONE, met)


def accuracy_at(arm: str, queries: int) -> Measure:
    """Measures the mean accuracy, beside the victim's."""

    def measure(measured: Measured) -> Found:
        values = measured.arms.get(arm, {}).get(queries)
        if not values:
            return _NOT_RUN
        mean = fmean(values)
        told = f"{mean:.1%} from {queries:,} queries, {arm} ({intervals(values, measured.inputs)})"
        return told, (mean, mean)

    return measure


def times_fewer(level: float | None = None, *, arm: str = GRADIENTS) -> Measure:
    """Measures how many times fewer queries an arm needs than membership alone."""

    def measure(measured: Measured) -> Found:
        plain, explained = measured.curves(MEMBERSHIP), measured.curves(arm)
        if not plain or len(plain) != len(explained):
            return _NOT_RUN
        try:
            found = cheaper(plain, explained, level)
        except Inconclusive as reason:
            return f"not comparable: {reason}", None
        return found.line(), (found.interval.low, inf if found.at_least else found.interval.high)

    return measure


def worth(arm: str = GRADIENTS) -> Measure:
    """Measures how many membership queries reach the accuracy of 1, 10, 100 … queries of an arm, per query.

    As a number: the most it is worth at any of them.
    """

    def measure(measured: Measured) -> Found:
        plain, explained = measured.curves(MEMBERSHIP), measured.curves(arm)
        if not plain or len(plain) != len(explained):
            return _NOT_RUN
        parts, best = [], (0.0, 0.0)
        for index, (n, _) in enumerate(explained[0]):
            pairs = [_reached(curve[index][1], other) for curve, other in zip(explained, plain, strict=True)]
            bound = "more than " if any(beyond for *_, beyond in pairs) else ""
            fewest, most = (exp(fmean(log(pair[end] / n) for pair in pairs)) for end in (0, 1))
            parts.append(f"{bound}{fewest:,.3g} to {most:,.3g}× at {n:,}")
            best = max(best[0], fewest), max(best[1], inf if bound else most)
        told = f"{'; '.join(parts)} queries, each at the accuracy they reach (geometric mean over {len(plain)} seeds)"
        return told, best

    return measure


def _reached(level: float, curve: Curve) -> tuple[int, int, bool]:
    """The fewest and the most queries to the level, or all that were tried and True where they were not enough."""
    try:
        return *queries_to(level, curve), False
    except Inconclusive:
        return curve[-1][0], curve[-1][0], True


def queries_for(arm: str, level: float) -> Measure:
    """Measures the queries until an accuracy, seed by seed."""

    def measure(measured: Measured) -> Found:
        reached = [_reached(level, curve) for curve in measured.curves(arm)]
        counts = [f"more than {most:,}" if beyond else f"{fewest:,} to {most:,}" for fewest, most, beyond in reached]
        return (
            (f"{' / '.join(counts)} queries for {level:.0%}, {arm} (one number a seed)", None) if counts else _NOT_RUN
        )

    return measure


def gap(first: str, second: str, queries: int) -> Measure:
    """Measures the difference of two arms at one number of queries, paired by seed; as a number, its size below 0."""

    def measure(measured: Measured) -> Found:
        a, b = (measured.arms.get(arm, {}).get(queries, []) for arm in (first, second))
        if not a or len(a) != len(b):
            return _NOT_RUN
        differences = [100 * (y - x) for x, y in zip(a, b, strict=True)]
        ends = median_interval(differences, differences)
        told = (
            f"{fmean(differences):+.1f} points at {queries:,} queries ({ends.low:+.1f} to {ends.high:+.1f}: "
            f"{ends.confidence:.0%} interval of the median over {len(differences)} seeds)"
        )
        size = -abs(fmean(differences))
        return told, (size, size)

    return measure


def draw(panels: dict[str, Measured], place: Path) -> None:
    """Accuracy against queries: the mean and the range over seeds of each arm, and the victims' own accuracy."""
    from matplotlib.figure import Figure  # slow to import, and needed only here

    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(4.2 * columns, 3.4 * rows), layout="constrained")
    for index, (title, measured) in enumerate(panels.items()):
        axes = figure.add_subplot(rows, columns, index + 1, title=title, xscale="log", ylim=(0, 1))
        axes.set(xlabel="queries", ylabel="test accuracy")
        axes.axhline(measured.victim, color="grey", linestyle=":", label="victim")
        for arm, points in measured.arms.items():
            if points:
                _draw_arm(axes, arm, dict(sorted(points.items())))
        axes.legend(fontsize=7, loc="best")
    figure.savefig(place, dpi=110)


def _draw_arm(axes: Any, arm: str, points: dict[int, list[float]]) -> None:
    means = [fmean(values) for values in points.values()]
    below = [mean - min(values) for mean, values in zip(means, points.values(), strict=True)]
    above = [max(values) - mean for mean, values in zip(means, points.values(), strict=True)]
    axes.errorbar(list(points), means, yerr=[below, above], marker="o", markersize=3, capsize=3, label=arm)
