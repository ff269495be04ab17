"""The table of strangers' models in docs/first-try.md is what its bench wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator
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


def lines() -> Iterator[str]:
    """The table, and the memory that an audit of large pictures holds."""
    models = json.loads((ROOT / "results/bench/first-try.json").read_text())["models"]
    yield from (row(model) for model in models if model["classifier"])
    found = json.loads((ROOT / "results/bench/large-pictures.json").read_text())
    assert set(found["cells"].values()) == {"done"}
    yield f"{found['budget']:,} queries each, held {found['all processes, MB']:,} MB at most"


def test_the_page_says_what_the_benches_saw() -> None:
    page = " ".join((ROOT / "docs/first-try.md").read_text().split())
    assert [line for line in lines() if line not in page] == []


def row(model: dict) -> str:
    """A line of the table."""
    name = Path(model["file"]).name
    told = f"`{model['tries'][-1]['flags']}`" if len(model["tries"]) > 1 else "nothing"
    return f"| `{name}` of {model['package']} | {model['kind']} | {told} |"
