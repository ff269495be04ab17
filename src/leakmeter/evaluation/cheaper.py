"""How much cheaper one view makes a copy than another: the ratio of queries at equal quality, over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from statistics import fmean

from pydantic import BaseModel, ConfigDict

from leakmeter.errors import Inconclusive, UsageError
from leakmeter.evaluation.crossing import Curve, crossing
from leakmeter.evaluation.intervals import Interval, mean_interval


class Cheaper(BaseModel):
    """`times`: the geometric mean over seeds of queries(plain) / queries(explained) at the same `level`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    times: float
    interval: Interval
    level: float
    """The quality at which both were compared."""
    at_least: bool
    """Whether some explained curve began above the level: then fewer queries than were tried may do."""

    def line(self, explanation: str = "gradients", plain: str = "probabilities") -> str:
        """The sentence of the report."""
        bound = "at least " if self.at_least else ""
        ends = f"{self.interval.low:.3g} to {self.interval.high:.3g}"
        return (
            f"showing {explanation} makes the copy {bound}{self.times:.3g}× cheaper than showing {plain} "
            f"({self.interval.confidence:.0%} interval {ends}, {self.interval.method}, n={self.interval.n}; "
            f"compared at {self.level:.1%})"
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
    if level is None:
        level = min(max(value for _, value in curve) for curve in [*plain, *explained])
    logs = [log(queries_to(level, a) / queries_to(level, b)) for a, b in zip(plain, explained, strict=True)]
    spread = mean_interval(logs)
    return Cheaper(
        times=exp(fmean(logs)),
        interval=spread.model_copy(
            update={
                "low": exp(spread.low),
                "high": exp(spread.high),
                "method": f"{spread.method}, on the logarithm",
            }
        ),
        level=level,
        at_least=any(curve[0][1] >= level for curve in explained),
    )


def queries_to(level: float, curve: Curve) -> float:
    """Queries until the curve first reaches `level`; an error if it never does."""
    found = crossing(curve, level)
    if found is None:
        raise Inconclusive(f"expected a curve that reaches {level:.1%}, got one that ends at {curve[-1][1]:.1%}")
    return found
