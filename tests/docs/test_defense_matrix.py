"""The matrix of defenses in docs/defenses.md is that of results/."""

import json
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_row_is_what_the_study_measured() -> None:
    page = (ROOT / "docs" / "defenses.md").read_text()
    found = json.loads((ROOT / "results" / "defense-matrix" / "defense-matrix.json").read_text())
    rows = [row for row in found["table"] if row["dataset"] == "digits"]
    assert len(rows) > 10
    for row in rows:
        reached = [row["fidelity"].get(name) for name in ("naive", "knowing", "label-only")]
        shown = [f"{row[cost]:.1%}" for cost in ("accuracy_loss", "distortion")]
        shown += ["–" if each is None else f"{each['mean']:.1%}" for each in reached] + [f"{row['best']['mean']:.1%}"]
        assert f"| `{row['defense']}` | {' | '.join(shown)} |" in page
