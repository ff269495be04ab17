"""What docs/watch.md says was measured is what the files in results/ hold."""

import json
from pathlib import Path
from typing import Any

from leakmeter.evaluation.intervals import exact

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "watch.md").read_text()


def held(place: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((ROOT / "results" / place).read_text())
    return content


def test_the_table_of_detectors() -> None:
    found = held("detectors/detectors.json")
    assert f"`{found['command']}`" in PAGE
    for name in ("prada", "hoda", "seat", "mmd"):
        rows = [row for row in found["table"] if row["detector"] == name]
        told = {(row["attack"], row["accounts"]): _alarm(row) for row in rows}
        cells = [f"{told[attack, 1]} / {told[attack, 10]}" for attack in dict.fromkeys(row["attack"] for row in rows)]
        assert f"| `{name}` | {rows[0]['false alarms']:.1%} | {' | '.join(cells)} |" in PAGE


def _alarm(row: dict[str, Any]) -> str:
    queries = row["queries at the alarm"]
    return "silent" if queries is None else f"{queries:.0f}: {row['fidelity the thief had']:.1%}"


def test_what_is_stated_of_thieves() -> None:
    found = held("bench/watch-thieves.json")
    short = sum(row["stated"] < row["real"] - 0.03 for row in found["rows"])
    assert short == found["more than 3 points below the real attack"]
    said = f"{len(found['rows'])} thieves, {short} of them stated more than 3 points too low"
    assert said in PAGE
    assert f"{100 * found['mean difference']:.1f} points above the real copy in the mean" in PAGE
    assert f"{-100 * min(0.0, found['worst']):.1f} points below it in the worst" in PAGE


def test_whose_accounts_are_taken_for_one() -> None:
    found = held("bench/watch-sybils.json")
    as_one, thieves = found["found as one, all ten accounts"], found["strange thieves"]
    assert f"{as_one} of {thieves} thieves" in PAGE
    assert f"{found['honest put together with others']} of {found['honest']} honest clients" in PAGE
    assert f"{found['natural accounts put together']} of {10 * found['scenes']} accounts" in PAGE


def test_a_long_log() -> None:
    found = held("bench/watch-scan.json")
    assert f"`{found['command']}`" in PAGE
    clock = int(found["seconds to read"] + found["seconds to rank"])
    said = (
        f"in {clock} seconds by the clock on a busy machine ({found['seconds of computing for both']:.0f} of computing"
    )
    assert said in PAGE
    assert f"at most {found['peak memory in MB']} MB" in PAGE
    assert found["rows"] == found["read"] == 10_000_000
    assert found["new when read again"] == 0


def test_the_nights() -> None:
    found = held("bench/watch-nights.json")
    assert f"`{found['command']}`" in PAGE
    assert f"{len(found['runs'])} of its scenes run" in PAGE
    most = exact(found["honest flagged"], found["honest"]).high
    assert f"{found['honest']} honest clients, {found['honest flagged']} flagged (at most {most:.1%})" in PAGE
    said = f"{found['found before 90%']} of {found['thieves that pass 80%']} thieves that pass 80 % found before 90 %"
    assert said in PAGE.replace("\n", " ")
