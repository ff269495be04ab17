"""The matrices of defenses in docs/defenses.md are those of results/."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("place", "dataset"),
    [
        ("defense-matrix/defense-matrix", "digits"),
        ("defense-pictures/defense-matrix", "mnist"),
        ("defense-pictures/defense-matrix", "fashion-mnist"),
        ("defense-table/defense-table", "adult"),
    ],
)
def test_every_row_is_what_the_study_measured(place: str, dataset: str) -> None:
    page = (ROOT / "docs" / "defenses.md").read_text()
    found = json.loads((ROOT / "results" / f"{place}.json").read_text())
    rows = [row for row in found["table"] if row["dataset"] == dataset]
    assert len(rows) > 10
    for row in rows:
        reached = [row["fidelity"].get(name) for name in ("naive", "knowing", "label-only")]
        shown = [f"{row[cost]:.1%}" for cost in ("accuracy_loss", "distortion")]
        shown += ["–" if each is None else f"{each['mean']:.1%}" for each in reached] + [f"{row['best']['mean']:.1%}"]
        assert f"| `{row['defense']}` | {' | '.join(shown)} |" in page
