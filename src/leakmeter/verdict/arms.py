"""Arms: cells that differ only in their seed, put together, with what a copy costs through each."""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean

from leakmeter.evaluation.crossing import crossing
from leakmeter.evaluation.intervals import Interval, mean_interval
from leakmeter.results import Arm, CellResult, CopyCost

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
    first, finals = cells[0], [cell.final for cell in cells]
    curve = [(queries, *_at(cells, queries)) for queries in _stops(cells)]
    scores = [final.score for final in finals if final is not None and final.score is not None]
    accuracies = [score.accuracy for score in scores if score.accuracy is not None]
    return Arm(
        attack=first.attack,
        label=label,
        view=first.view,
        defense=first.defense,
        control=first.control,
        seeds=len(cells),
        queries=max(final.queries for final in finals if final is not None),
        fidelity=fmean(score.fidelity for score in scores),
        fidelity_interval=_interval(cells, curve[-1][0]),
        accuracy=fmean(accuracies) if accuracies else None,
        curve=curve,
        costs=[_cost(curve, fidelity) for fidelity in FIDELITIES],
    )


def _stops(cells: list[CellResult]) -> list[int]:
    """Query counts every seed has a point at."""
    common = set.intersection(*({point.queries for point in cell.curve} for cell in cells))
    return sorted(common) or sorted({cells[0].curve[-1].queries})


def _interval(cells: list[CellResult], queries: int) -> Interval:
    """Over seeds where there are several, else over the test inputs of the one."""
    scores = [point.score for cell in cells for point in cell.curve if point.queries == queries and point.score]
    if len(scores) == 1:
        return scores[0].fidelity_interval
    over = mean_interval([score.fidelity for score in scores])
    return over.model_copy(update={"low": max(0.0, over.low), "high": min(1.0, over.high)})


def _at(cells: list[CellResult], queries: int) -> tuple[float, float, float]:
    values = [p.score.fidelity for cell in cells for p in cell.curve if p.queries == queries and p.score]
    interval = _interval(cells, queries)
    return fmean(values), interval.low, interval.high


def _cost(curve: list[tuple[int, float, float, float]], fidelity: float) -> CopyCost:
    means, lows, highs = ([(point[0], point[k]) for point in curve] for k in (1, 2, 3))
    return CopyCost(
        fidelity=fidelity,
        queries=_whole(crossing(means, fidelity)),
        low=_whole(crossing(highs, fidelity)),
        high=_whole(crossing(lows, fidelity)),
    )


def _whole(queries: float | None) -> int | None:
    return None if queries is None else round(queries)
