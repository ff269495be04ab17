"""CoDFe table 3: queries until the copy stops improving, decided as an attacker must, without test data.

The paper counts the queries to the highest test accuracy, which no attacker can see. What an attacker does see is how
many of the victim's new answers the student had foreseen; the count here is where that comes within two points of its
highest value. The copies are those of `codfe-fig2`. Fewer queries than the paper's count only where the copy is as good
as the paper's, whose accuracy is known on MNIST.
"""

from __future__ import annotations

from statistics import fmean
from typing import Any

from leakmeter.studies.codfe import fig2
from leakmeter.studies.copies import at, collapsed, median_over_seeds, over_seeds
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import NONE, Row, by_group, of_median

PAPER = {
    "mnist": {"dast/probs": 5_900_000, "codfe/probs": 352_452, "dast/labels": 21_500_000, "codfe/labels": 344_414},
    "fashion-mnist": {"dast/probs": 900_000, "codfe/probs": 445_488, "dast/labels": 750_000, "codfe/labels": 475_487},
}
NEAR = 0.02


def main(settings: StudyOptions) -> dict[str, Any]:
    """Queries to the end of learning, the accuracy there, and the paper's number."""
    record = settings.record("codfe-table3", rule=f"within {NEAR} of its highest")
    for cells in fig2.filled(record, settings):
        record.write(summary=[_row(name, group) for name, group in cells.items()])
    return record.content


def rows(found: dict[str, Any]) -> list[Row]:
    """Queries of every arm; one that collapsed has learned nothing, however soon."""
    return [_told(name, cells) for name, cells in by_group(found["cells"]).items()]


def _told(name: str, cells: list[dict[str, Any]]) -> Row:
    dataset, view, arm = name.split("/")
    queries = [settled(cell["notes"]["answers"]) for cell in cells]
    there = fmean(at(cell, count)["accuracy"] for cell, count in zip(cells, queries, strict=True))
    paper, accurate = PAPER[dataset].get(f"{arm}/{view}"), fig2.PAPER.get(arm, {}).get(f"{dataset}/{view}")
    fallen = any(map(collapsed, cells))
    worse = fallen or there < (accurate or 0)
    asked, beside = cells[0]["curve"][-1]["queries"], "" if accurate is None else f" (the paper's copy: {accurate:.1%})"
    return of_median(
        f"{arm}, {dataset}, {view}: queries",
        [float(count) for count in queries],
        f"of {asked:,} asked; {there:.1%} accurate there{beside}" + (", collapsed" if fallen else ""),
        paper=NONE if paper is None else f"{paper:,}",
        met=None if paper is None or not (worse or accurate) else not worse and max(queries) <= paper,
    )


def _row(name: str, cells: list[dict[str, Any]]) -> dict[str, Any]:
    dataset, view, arm = name.split("/")
    queries = [settled(cell["notes"]["answers"]) for cell in cells]
    there = [at(cell, count) for cell, count in zip(cells, queries, strict=True)]
    return {
        "dataset": dataset,
        "view": view,
        "arm": arm,
        "queries": median_over_seeds([float(count) for count in queries]),
        "accuracy_there": over_seeds([point["accuracy"] for point in there], there[0]["n"]),
        "collapsed": [collapsed(cell) for cell in cells],
        "paper": PAPER[dataset].get(f"{arm}/{view}"),
    }


def settled(answers: list[dict[str, Any]]) -> int:
    """The first number of queries at which the share foreseen is near its highest."""
    highest = max(point["foreseen"] for point in answers)
    return next(int(point["queries"]) for point in answers if point["foreseen"] >= highest - NEAR)
