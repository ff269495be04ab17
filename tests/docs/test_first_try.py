"""The table of strangers' models in docs/first-try.md is what its bench wrote."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_row_is_what_the_bench_saw() -> None:
    found = json.loads((ROOT / "results/bench/first-try.json").read_text())
    page = (ROOT / "docs/first-try.md").read_text()
    classifiers = [model for model in found["models"] if model["classifier"]]
    rows = [line for line in page.split("## Strangers' models")[1].splitlines() if line.startswith("| `")]
    assert rows == [row(model) for model in classifiers]
    assert all(model["tries"][-1]["works"] for model in classifiers)
    first = sum(len(model["tries"]) == 1 for model in classifiers)
    assert f"{first} of {len(classifiers)} work at the first call" in page
    assert all(not model["tries"][-1]["works"] for model in found["models"] if not model["classifier"])


def row(model: dict) -> str:
    """A line of the table."""
    name = Path(model["file"]).name
    told = f"`{model['tries'][-1]['flags']}`" if len(model["tries"]) > 1 else "nothing"
    return f"| `{name}` of {model['package']} | {model['kind']} | {told} |"
