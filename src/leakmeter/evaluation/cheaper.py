"""How much cheaper one view makes a copy than another: the ratio of queries at equal quality, over pairs of runs."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import median

from pydantic import BaseModel, ConfigDict

from leakmeter.errors import Inconclusive, UsageError
from leakmeter.evaluation.crossing import Curve, crossing, rising
from leakmeter.evaluation.intervals import Interval, median_interval


class Cheaper(BaseModel):
    """`times`: the median over pairs of runs of queries(plain) / queries(explained) at the same `level`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    times: float
    interval: Interval
    """Of the median; it knows that a cost lies between two points of a curve. Few pairs give less than 95 %."""
    level: float
    """The quality at which both were compared."""
    asked: bool = False
    """Whether that quality was given; else it is the highest that every curve reaches."""
    at_least: bool
    """Whether some explained curve began above the level: then fewer queries than were tried may do."""

    def line(self, explanation: str = "gradients", plain: str = "probabilities") -> str:
        """The sentence of the report."""
        bound = "at least " if self.at_least else ""
        low, high = f"{self.interval.low:.3g}", f"{self.interval.high:.3g}"
        pairs = f"one pair of runs, between {low} and {high}"
        if self.interval.n > 1:
            pairs = f"{self.interval.n} pairs of runs, {self.interval.confidence:.0%} interval {low} to {high}"
        copy = f"a {self.level:.0%} copy" if self.asked else "the copy"
        return (
            f"showing {explanation} makes {copy} {bound}{self.times:.3g}× cheaper than showing {plain} "
            f"({pairs}; compared at {self.level:.1%})"
        )


def cheaper(plain: Sequence[Curve], explained: Sequence[Curve], level: float | None = None) -> Cheaper:
    """Compares two views by the queries each needs for the same quality.

    Args:
        plain: one curve a seed without explanations.
        explained: the curves with them, of the same seeds in the same order.
        level: the quality to compare at; None: the highest that every curve reaches.
    """
    if not plain or len(plain) != len(explained) or not all([*plain, *explained]):
        raise UsageError(
            f"expected as many curves with explanations as without, none of them empty, "
            f"got {len(explained)} and {len(plain)}"
        )
    asked = level is not None
    if level is None:
        level = min(rising(curve)[-1][1] for curve in [*plain, *explained])
    pairs = [(queries_to(level, a), queries_to(level, b)) for a, b in zip(plain, explained, strict=True)]
    if all(a[0] == b[0] == 1 for a, b in pairs):
        raise Inconclusive(f"expected curves that start below {level:.1%}, got none; put a point at fewer queries")
    return Cheaper(
        times=median(sqrt(a[0] * a[1]) / _most(b) for a, b in pairs),
        interval=median_interval([a[0] / b[1] for a, b in pairs], [a[1] / b[0] for a, b in pairs]),
        level=level,
        asked=asked,
        at_least=any(b[0] == 1 < b[1] for _, b in pairs),
    )


def queries_to(level: float, curve: Curve) -> tuple[int, int]:
    """The fewest and the most queries until the curve reaches `level`; an error if it never does."""
    found = crossing(curve, level)
    if found is None:
        best = rising(curve)[-1][1]
        raise Inconclusive(f"expected a curve that reaches {level:.1%}, got one that reaches {best:.1%}")
    return found


def _most(cost: tuple[int, int]) -> float:
    """The middle of a cost, over the logarithm; where nothing was tried below it, all of it."""
    return float(cost[1]) if cost[0] == 1 else sqrt(cost[0] * cost[1])
