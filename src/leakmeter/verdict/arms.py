"""Arms: cells that differ only in their seed, put together, with what a copy costs through each."""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean
from typing import Any

from leakmeter.evaluation.by_class import ByClass
from leakmeter.evaluation.crossing import crossing, crossing_interval
from leakmeter.evaluation.intervals import attack_mean, exact
from leakmeter.evaluation.score import Score
from leakmeter.evaluation.tries import first_made, share_of_tries
from leakmeter.results import Arm, CellResult, CopyCost
from leakmeter.verdict.findings import whole

FIDELITIES = (0.8, 0.9, 0.95)


def make_arms(cells: list[CellResult]) -> list[Arm]:
    """Cells that differ only in their seed, put together."""
    groups: dict[tuple[str, str, str], list[CellResult]] = defaultdict(list)
    for cell in cells:
        if cell.status == "done" and cell.final is not None and cell.final.score is not None:
            groups[arm_label(cell), cell.view, cell.defense].append(cell)
    return [_arm(label, group) for (label, _, _), group in groups.items()]


def arm_label(cell: CellResult) -> str:
    """What a cell's arm is called in every report."""
    pool = cell.options.get("pool")
    return f"{cell.attack} ({pool})" if isinstance(pool, str) else cell.attack


def _arm(label: str, cells: list[CellResult]) -> Arm:
    first, inputs = cells[0], min(score.n for cell in cells for score in _scores(cell))
    held = {queries: [_held(cell, queries) for cell in cells] for queries in _stops(cells)}
    curve = {queries: _known(rates) for queries, rates in held.items() if None not in rates}
    copies = list(curve.values())[-1]
    accuracies = [score.accuracy for cell in cells for score in _scores(cell)[-1:] if score.accuracy is not None]
    return Arm(
        attack=first.attack,
        label=label,
        view=first.view,
        defense=first.defense,
        control=first.control,
        seeds=len(cells),
        queries=max(curve),
        fidelity=fmean(copies),
        fidelity_interval=attack_mean(copies, inputs),
        copies=list(curve.values()),
        copies_interval=exact(fmean(copies) * inputs, inputs),
        inputs=inputs,
        accuracy=fmean(accuracies) if accuracies else None,
        **_by_class([score.by_class for cell in cells for score in _scores(cell)[-1:]]),
        whole=any(whole(cell) for cell in cells),
        curve=[(queries, *_point(rates, inputs)) for queries, rates in curve.items()],
        costs=[_cost(held, curve, inputs, fidelity) for fidelity in FIDELITIES],
    )


def _by_class(found: list[ByClass | None]) -> dict[str, Any]:
    """What stands beside the fidelity."""
    known = [each for each in found if each is not None]
    if not known:
        return {}
    return {
        "constant": known[0].constant,
        "majority": known[0].majority,
        "balanced": fmean(each.balanced for each in known),
        "worst": fmean(each.worst for each in known),
        "unnamed": min(each.unnamed for each in known),
    }


def _stops(cells: list[CellResult]) -> list[int]:
    """Query counts at which some seed has a point."""
    return sorted({point.queries for cell in cells for point in cell.curve if point.score is not None})


def _scores(cell: CellResult) -> list[Score]:
    return [point.score for point in cell.curve if point.score is not None]


def _held(cell: CellResult, queries: int) -> float | None:
    """How good the copy is that the thief holds after so many queries; None: there is none yet."""
    held = [point.score.fidelity for point in cell.curve if point.score is not None and point.queries <= queries]
    return held[-1] if held else None


def _known(rates: list[float | None]) -> list[float]:
    return [rate or 0.0 for rate in rates]


def _point(rates: list[float], inputs: int) -> tuple[float, float, float]:
    interval = attack_mean(rates, inputs)
    return fmean(rates), interval.low, interval.high


def _cost(held: dict[int, list[float | None]], curve: dict[int, list[float]], inputs: int, fidelity: float) -> CopyCost:
    points = {queries: _point(rates, inputs) for queries, rates in curve.items()}
    reached = crossing([(queries, point[0]) for queries, point in points.items()], fidelity)
    low, high = crossing_interval([(queries, *point[1:]) for queries, point in points.items()], fidelity)
    made_low, made = first_made({queries: _known(rates) for queries, rates in held.items()}, inputs, fidelity)
    return CopyCost(
        fidelity=fidelity,
        queries=None if reached is None else reached[1],
        low=low,
        high=high,
        made=made,
        made_low=made_low,
        below=_below(held, fidelity),
        tries=share_of_tries(list(curve.values())[-1], inputs, fidelity),
    )


def _below(held: dict[int, list[float | None]], fidelity: float) -> int:
    """The last of the first points at which nobody had it."""
    last = 0
    for queries, rates in held.items():
        if any(rate >= fidelity for rate in _known(rates)):
            break
        last = queries
    return last
