"""What showing each explanation costs the owner: copies made with it beside copies made without."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean

from leakmeter.errors import Inconclusive
from leakmeter.evaluation.cheaper import Cheaper, cheaper
from leakmeter.results import CellResult
from leakmeter.verdict.findings import GOOD, explained

_Curves = dict[int, list[tuple[int, float]]]


@dataclass(frozen=True)
class Explained:
    """An explanation beside a view, and what it gives away there."""

    explanation: str
    plain: str
    """The view it was shown with; what a thief gets who is shown nothing else is the measure."""
    said: str
    """What it costs, in a sentence."""
    copies: dict[int, float]
    """The best copy held after so many queries, in the mean over tries; empty: it was not measured."""
    found: Cheaper | None = None
    """How many times cheaper it makes a copy; None: as far as is known it does not."""


def compared(cells: list[CellResult]) -> list[Explained]:
    """Every explanation that was shown, in the order of the audit."""
    rows = []
    for view in dict.fromkeys(cell.view for cell in cells if "+" in cell.view and not cell.control):
        plain, _, explanation = view.partition("+")
        here = [cell for cell in cells if cell.view == view and not cell.control]
        readers = [cell for cell in here if explained(cell) and cell.status == "done"]
        if not readers:
            rows.append(Explained(explanation, plain, _not_measured(explanation, here), {}))
            continue
        blind = [cell for cell in cells if cell.view == plain]
        rows.append(_compared(explanation, plain, _curves(blind), _curves([*blind, *readers])))
    return rows


def copies_without(cells: list[CellResult], plain: str) -> dict[int, float]:
    """The best copy held after so many queries by a thief who is shown this view alone."""
    return _means(_curves([cell for cell in cells if cell.view == plain]))


def _not_measured(explanation: str, cells: list[CellResult]) -> str:
    """Why it is not known what an explanation gives away."""
    why = {cell.error for cell in cells if cell.status == "skipped" and f" {explanation} " in f"{cell.error} "}
    if why:
        return f"Showing {explanation} was not measured: {min(why)}."
    failed = any(explained(cell) for cell in cells)
    who = f"The attack that reads {explanation} failed" if failed else f"No attack that reads {explanation} was run"
    return f"{who}: what showing it gives away was not measured."


def _compared(explanation: str, plain: str, without: _Curves, with_them: _Curves) -> Explained:
    """Compared at a good copy where all made one, else at the best that all made; whoever sees more may ignore it."""
    seeds, copies = sorted(with_them.keys() & without.keys()), _means(with_them)
    if not seeds:
        said = f"What showing {explanation} costs is not known: no copy was made of {plain} alone."
        return Explained(explanation, plain, said, copies)
    pairs = [without[seed] for seed in seeds], [with_them[seed] for seed in seeds]
    said = ""
    for level in (GOOD, None):
        with suppress(Inconclusive):
            found = cheaper(*pairs, level)
            if found.times > 1:
                line = found.line(explanation, plain)
                return Explained(explanation, plain, line[0].upper() + line[1:] + ".", copies, found)
            said = f"Showing {explanation} made no copy cheaper than showing {plain}, as far as these stops tell."
    few = min(copies)
    asked = f"{few:,} quer{'y' if few == 1 else 'ies'}"
    too_easy = (
        f"What showing {explanation} costs is not known: the fewest that were tried, {asked}, made the copy with it "
        f"and without; audit with smaller stops."
    )
    return Explained(explanation, plain, said or too_easy, copies)


def _curves(cells: list[CellResult]) -> _Curves:
    """For each seed the best copy that an undefended attack held after so many queries."""
    points: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for cell in cells:
        if cell.control or cell.defense != "none":
            continue
        for point in cell.curve:
            if point.score is not None:
                held = points[cell.seed]
                held[point.queries] = max(held[point.queries], point.score.fidelity)
    return {
        seed: list(zip(sorted(held), accumulate((held[at] for at in sorted(held)), max), strict=True))
        for seed, held in points.items()
    }


def _means(curves: _Curves) -> dict[int, float]:
    """Over the tries that looked at each number of queries."""
    held = [dict(curve) for curve in curves.values()]
    return {n: fmean(each[n] for each in held if n in each) for n in sorted({n for each in held for n in each})}
