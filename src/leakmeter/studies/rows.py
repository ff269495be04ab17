"""What a study found, one line a row: the paper's number, ours with its interval, seeds, budget, met or not.

Every study has a function `rows(found)` from the content of its JSON, so that a record of any age tells its lines.
Intervals are made anew from the values in the record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from leakmeter.evaluation.intervals import Interval, attack_mean, exact, median_interval

NONE = "–"


@dataclass(frozen=True)
class Row:
    """One number of a study, as text."""

    what: str
    ours: str
    """With its interval."""
    budget: str
    """What it was measured with: queries, images, votes."""
    seeds: int = 1
    paper: str = NONE
    met: bool | None = None
    """Whether ours is as good as the paper's, or as the goal; None: there is none, or they do not compare."""

    @property
    def verdict(self) -> str:
        """In a word."""
        if self.met is None:
            return "no goal" if self.paper == NONE else "undecided"
        return "met" if self.met else "missed"

    def line(self) -> str:
        """All of it."""
        seeds = f"{self.seeds} seed{'' if self.seeds == 1 else 's'}"
        return f"{self.what}: paper {self.paper}; here {self.ours}; {seeds}; {self.budget}; {self.verdict}"


def share(
    what: str,
    values: Sequence[float],
    inputs: int,
    budget: str,
    *,
    paper: float | None = None,
    goal: float | None = None,
    comparable: bool = True,
    most: float = 1.0,
) -> Row:
    """The mean over seeds of a share of `inputs`, to be at least the paper's, or our goal; `most` is all it can be."""
    told = f"{fmean(values):.1%} ({intervals(values, inputs, most)})"
    line = goal if paper is None else paper
    met = fmean(values) >= line if line is not None and comparable else None
    beside = NONE if line is None else f"{line:.1%}" if paper is not None else f"none, goal {line:.1%}"
    return Row(what, told, budget, len(values), beside, met)


def intervals(values: Sequence[float], inputs: int, most: float = 1.0) -> str:
    """What each seed has, what these seeds have on all inputs, and what any seed may, of which few seeds say little."""
    parts = [min(value / most, 1.0) for value in values]
    these = exact(fmean(parts) * inputs, inputs)
    if len(parts) == 1:
        return f"{_range(these, most)}, of inputs only"
    seeds = f"{min(values):.1%} to {max(values):.1%} by seed"
    return f"{seeds}; these seeds: {_range(these, most)}, any seed: {_range(attack_mean(parts, inputs), most)}"


def _range(ends: Interval, most: float) -> str:
    return f"{most * ends.low:.1%} to {most * ends.high:.1%}"


def of_median(what: str, values: Sequence[float], budget: str, **more: Any) -> Row:
    """The median over seeds of what has no bounds."""
    ends = median_interval(values, values)
    told = _number(median(values))
    if len(values) > 1:
        told += f" ({_number(ends.low)} to {_number(ends.high)}, {ends.confidence:.0%})"
    return Row(what, told, budget, len(values), **more)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def by_group(cells: Mapping[str, Any], separator: str = "/seed") -> dict[str, list[Any]]:
    """Cells of all seeds by what they have in common: the part of their key before the seed."""
    groups: dict[str, list[Any]] = {}
    for key, cell in cells.items():
        groups.setdefault(key.rpartition(separator)[0], []).append(cell)
    return groups
