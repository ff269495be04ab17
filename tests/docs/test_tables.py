"""The rows of docs/tables.md are those of results/bench/tables.json."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TABLES = {"german": "German Credit", "adult": "Adult", "compas": "COMPAS"}
VICTIMS = {"xgboost": "XGBoost", "lightgbm": "LightGBM", "forest": "forest of 100"}
Row = dict[str, Any]


def rows(found: list[Row]) -> Iterator[str]:
    """Every row of the page's tables of measurements."""
    for seed in sorted({row["seed"] for row in found if row["part"] == "tree" and row["dataset"] == "german"}):
        for victim in ("tree", "tree5"):
            ours, theirs = (_one(found, part="tree", victim=victim, seed=seed, how=how) for how in ("parts", "paper"))
            if ours and theirs:
                leaf = "5 rows" if victim == "tree5" else "1 row"
                yield f"| {leaf}, seed {seed} | {_exact(ours)} | {_exact(theirs)} |"
    for seed in sorted({row["seed"] for row in found if row["part"] == "ensembles"}):
        for budget in (10_000, 1_000):
            for dataset, victim in ((d, v) for d in TABLES for v in VICTIMS):
                cell = {"dataset": dataset, "victim": victim, "seed": seed, "budget": budget}
                if _one(found, **cell, how="tabular", view="probs"):
                    yield _ensemble(found, cell)


def _ensemble(found: list[Row], cell: Row) -> str:
    ours, labels = (_one(found, **cell, how="tabular", view=view) for view in ("probs", "labels"))
    assert ours
    plain = [row for row in found if cell.items() <= row.items() and " on " in row["how"]]
    name = f"{TABLES[cell['dataset']]}, {VICTIMS[cell['victim']]}, seed {cell['seed']}, {ours['queries']:,}"
    return f"| {name} | {_pair(ours)} | {_best(plain, 'test')} | {_best(plain, 'box')} | {_pair(labels)} |"


def _best(plain: list[Row], where: str) -> str:
    best = max(plain, key=lambda row: row[where], default=None)
    return "not measured" if best is None else f"{best[where]:.3f} ({best['how']}, of {len(plain)})"


def _pair(row: Row | None) -> str:
    return "not measured" if row is None else f"{row['test']:.3f}, {row['box']:.3f}"


def _exact(row: Row) -> str:
    before = f" ({row['queries_before_proof']:,})" if row["how"] == "parts" else ""
    return f"{row['queries']:,}{before} | {'yes' if row['test'] == row['box'] == 1 else 'no'}"


def _one(found: list[Row], **wanted: Any) -> Row | None:
    return next((row for row in found if wanted.items() <= row.items()), None)


def _measured() -> list[Row]:
    kept: list[Row] = json.loads((ROOT / "results/bench/tables.json").read_text())["rows"]
    return kept


def test_the_page_shows_what_was_measured() -> None:
    page = (ROOT / "docs/tables.md").read_text().splitlines()
    assert [row for row in rows(_measured()) if row not in page] == []
