"""The rows of docs/tables.md are those of results/bench/tables.json."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

ROOT = Path(__file__).parents[2]
TABLES = {"german": "German Credit", "adult": "Adult", "compas": "COMPAS"}
VICTIMS = {"xgboost": "XGBoost", "lightgbm": "LightGBM", "forest": "forest of 100"}
STUDENT_T = {2: 12.706, 3: 4.303}  # 97.5 % points for so many seeds
Row = dict[str, Any]


def rows(found: list[Row]) -> Iterator[str]:
    """Every row of the page's tables of measurements."""
    for seed in sorted({row["seed"] for row in found if row["part"] == "tree" and row["dataset"] == "german"}):
        for victim in ("tree", "tree5"):
            leaf = "5 rows" if victim == "tree5" else "1 row"
            hows = [
                _one(found, part="tree", victim=victim, seed=seed, how=how)
                for how in ("parts", "parts without proof", "paper")
            ]
            yield f"| {leaf}, seed {seed} | {' | '.join(map(_exact, hows))} |"
    for budget in (10_000, 1_000):
        for dataset, victim in ((d, v) for d in TABLES for v in VICTIMS):
            cell = [row for row in found if (dataset, victim, budget) == tuple(map(row.get, CELL))]
            if any(row["how"] == "tabular" for row in cell):
                yield from (_ensemble(cell, where) for where in ("test", "box"))
    yield from map(_shown, (row for row in found if row["part"] == "shap"))


CELL = ("dataset", "victim", "budget")


def _ensemble(cell: list[Row], where: str) -> str:
    first = next(row for row in cell if row["how"] == "tabular")
    name = f"{TABLES[first['dataset']]}, {VICTIMS[first['victim']]}, {first['queries']:,}, {where}"
    columns = [
        _mean(cell, where, lambda row: row["how"] == "tabular" and row["view"] == "probs"),
        _mean(cell, where, lambda row: row["how"] == "tabular with means"),
        _mean(cell, where, lambda row: row["how"] == "tabular" and row["view"] == "labels"),
        _mean(cell, where, lambda row: " on uniform" in row["how"]),
        _mean(cell, where, lambda row: " on data" in row["how"]),
    ]
    return f"| {name} | {' | '.join(columns)} |"


def _mean(cell: list[Row], where: str, wanted: Callable[[Row], bool]) -> str:
    """The mean over seeds, each the best of what was wanted, and its interval."""
    seeds: dict[int, float] = {}
    for row in filter(wanted, cell):
        seeds[row["seed"]] = max(seeds.get(row["seed"], 0.0), row[where])
    if not seeds:
        return "not measured"
    mean, values = fmean(seeds.values()), list(seeds.values())
    if len(values) == 1:
        return f"{mean:.3f} (1 seed)"
    half = STUDENT_T[len(values)] * stdev(values) / math.sqrt(len(values))
    return f"{mean:.3f} ({max(0, mean - half):.3f} to {min(1, mean + half):.3f}, {len(values)} seeds)"


def _shown(row: Row) -> str:
    curve = ", ".join(f"{float(fidelity):.3f}" for fidelity in row["curve"].values())
    reached = f"{row['queries_to_99']:,}" if row["queries_to_99"] else "not within 10,000"
    return f"| {TABLES[row['dataset']]}, seed {row['seed']}, {row['view']} | {curve} | {row['test']:.3f} | {reached} |"


def _exact(row: Row | None) -> str:
    assert row
    return f"{row['queries']:,}, {'yes' if row['test'] == row['box'] == 1 else 'no'}"


def _one(found: list[Row], **wanted: Any) -> Row | None:
    return next((row for row in found if wanted.items() <= row.items()), None)


def _measured() -> list[Row]:
    kept: list[Row] = json.loads((ROOT / "results/bench/tables.json").read_text())["rows"]
    return kept


def lines() -> Iterator[str]:
    """Every row, and what is said of the goals."""
    found = _measured()
    yield from rows(found)
    trees = [row for row in found if row["part"] == "tree" and row["dataset"] == "german"]
    plain, paper = ([row for row in trees if row["how"] == how] for how in ("parts without proof", "paper"))
    (german,) = (row for row in found if row["part"] == "audit")
    (parquet,) = (row for row in found if row["part"] == "parquet")
    yield f"asks {fmean(row['queries'] for row in plain):.0f} queries in the mean"
    yield f"asks {fmean(row['queries'] for row in paper):,.0f}. Ours"
    yield "XGBoost on German Credit loses {:.1f} points of test rows and {:.1f} of the box".format(
        *_lost(found, "xgboost")
    )
    yield "its forest {:.1f} and {:.1f};".format(*_lost(found, "forest"))
    told = [row["test"] for row in found if (row.get("dataset"), row.get("how")) == ("adult", "tabular with means")]
    yield f"where means bring test rows to {fmean(told):.3f}"
    yield f"{german['seconds']} s on two free cores, {german['computed']} s of computing"
    yield f"{parquet['peak_bytes'] / 1e6:.0f} MB, and {parquet['trial_peak_bytes'] / 1e6:.0f} MB in the process"
    best, mean = re.findall(r"[\d.]+%", german["headline"])[:2]
    yield f"{best} of inputs from 5,000 queries, {mean} on average"


def _lost(found: list[Row], victim: str) -> list[float]:
    """By who sees labels only, in points of test rows and of the box, seed by seed."""
    cell = [row for row in found if (*map(row.get, CELL), row.get("how")) == ("german", victim, 10_000, "tabular")]
    labels = {row["seed"]: row for row in cell if row["view"] == "labels"}
    probs = {row["seed"]: row for row in cell if row["view"] == "probs" and row["seed"] in labels}
    return [100 * fmean(probs[seed][of] - labels[seed][of] for seed in labels) for of in ("test", "box")]


def test_the_page_shows_what_was_measured() -> None:
    page = " ".join((ROOT / "docs/tables.md").read_text().split())
    assert [line for line in lines() if line not in page] == []
