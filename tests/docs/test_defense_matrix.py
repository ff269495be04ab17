"""The matrices of defenses in docs/defenses.md are those of results/."""

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
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


def lines() -> Iterator[str]:
    """Every row of the page's tables, and what is said below them."""
    rows = [row for place, dataset in MATRICES for row in measured(place, dataset)]
    assert len(rows) > 40
    for row in rows:
        reached = [row["fidelity"].get(name) for name in ("naive", "knowing", "label-only")]
        shown = [f"{row[cost]:.1%}" for cost in ("accuracy_loss", "distortion")]
        shown += ["–" if each is None else f"{each['mean']:.1%}" for each in reached] + [f"{row['best']['mean']:.1%}"]
        yield f"| `{row['defense']}` | {' | '.join(shown)} |"
    lied = {row["dataset"]: row for row in rows if row["defense"] == "misinformation:0.9"}
    best = {name: f"{row['best']['mean']:.1%}" for name, row in lied.items()}
    cost = {name: f"{row['accuracy_loss']:.1%}" for name, row in lied.items()}
    yield f"misinformation, which takes {cost['digits']} of accuracy from honest users"
    yield f"the best copy of digits still agrees on {best['digits']}"
    yield f"{best['mnist']} left for {cost['mnist']} of accuracy"
    others = [row["best"]["mean"] for row in measured(*MATRICES[1]) if row is not lied["mnist"]]
    others = [each for each in others if each > lied["mnist"]["best"]["mean"]]
    assert len(others) == 11
    yield f"eleven rows leave {min(others):.1%} or more"
    none = next(row["fidelity"] for row in measured(*MATRICES[2]) if row["defense"] == "none")
    yield f"({none['label-only']['mean']:.1%} against {none['naive']['mean']:.1%})"
    yield from _on_digits()


def _on_digits() -> Iterator[str]:
    """The rows of the audit of every defense on digits."""
    found = json.loads((ROOT / "results/defenses-digits/results.json").read_text())["cells"]

    def mean(value: str, pool: str, defense: str) -> float | None:
        cells = [cell for cell in found if (cell["options"]["pool"], cell["defense"]) == (pool, defense)]
        return fmean(cell["curve"][-1]["score"][value] for cell in cells) if cells else None

    for name in dict.fromkeys(cell["defense"].removesuffix("/adaptive") for cell in found):
        costs = [cell["notes"]["utility"] for cell in found if cell["defense"] == name]
        shown = [f"{fmean(cost[key] for cost in costs):.1%}" for key in ("accuracy_loss", "distortion")]
        for pool, values in (("digits", ("fidelity", "kl")), ("gaussian", ("fidelity",))):
            for defense in (name, f"{name}/adaptive"):
                for value in values:
                    reached = mean(value, pool, defense)
                    form = ".1%" if value == "fidelity" else ".2f"
                    shown.append("–" if reached is None else f"{reached:{form}}")
        yield f"| `{name}` | {' | '.join(shown)} |"


def test_every_row_is_what_the_study_measured() -> None:
    page = " ".join((ROOT / "docs" / "defenses.md").read_text().split())
    assert [line for line in lines() if line not in page] == []


@pytest.mark.parametrize(("place", "dataset"), MATRICES)
def test_no_row_reads_safer_than_an_attacker_who_throws_away_what_was_spoiled(place: str, dataset: str) -> None:
    rows = measured(place, dataset)
    for row in rows:
        assert row["seeds"] >= 3
        assert row["best"]["mean"] >= max(each["mean"] for each in row["fidelity"].values()) - 1e-9
        assert "label-only" in row["fidelity"]
    best = {row["defense"]: row["best"]["mean"] for row in rows}
    assert best["none"] >= best["limit:500"] - 1e-9
