"""The matrices of defenses in docs/defenses.md are those of results/."""

import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MATRICES = [
    ("defense-matrix/defense-matrix", "digits"),
    ("defense-matrix/defense-matrix", "mnist"),
    ("defense-matrix/defense-matrix", "fashion-mnist"),
    ("defense-table/defense-table", "adult"),
]


def measured(place: str, dataset: str) -> list[dict[str, Any]]:
    found = json.loads((ROOT / "results" / f"{place}.json").read_text())
    return [row for row in found["table"] if row["dataset"] == dataset]


@pytest.mark.parametrize(("place", "dataset"), MATRICES)
def test_every_row_is_what_the_study_measured(place: str, dataset: str) -> None:
    page = (ROOT / "docs" / "defenses.md").read_text()
    rows = measured(place, dataset)
    assert len(rows) > 10
    for row in rows:
        reached = [row["fidelity"].get(name) for name in ("naive", "knowing", "label-only")]
        shown = [f"{row[cost]:.1%}" for cost in ("accuracy_loss", "distortion")]
        shown += ["–" if each is None else f"{each['mean']:.1%}" for each in reached] + [f"{row['best']['mean']:.1%}"]
        assert f"| `{row['defense']}` | {' | '.join(shown)} |" in page


@pytest.mark.parametrize(("place", "dataset"), MATRICES)
def test_no_row_reads_safer_than_an_attacker_who_throws_away_what_was_spoiled(place: str, dataset: str) -> None:
    rows = measured(place, dataset)
    for row in rows:
        assert row["seeds"] >= 3
        assert row["best"]["mean"] >= max(each["mean"] for each in row["fidelity"].values()) - 1e-9
        assert "label-only" in row["fidelity"]
    best = {row["defense"]: row["best"]["mean"] for row in rows}
    assert best["none"] >= best["limit:500"] - 1e-9
