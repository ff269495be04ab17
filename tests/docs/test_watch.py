"""What docs/watch.md says was measured is what the files in results/ hold."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leakmeter.evaluation.intervals import exact

ROOT = Path(__file__).parents[2]


def held(place: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((ROOT / "results" / place).read_text())
    return content


def lines() -> Iterator[str]:
    """Every sentence with a figure that was measured."""
    yield from _detectors(held("detectors/detectors.json"))
    yield from _thieves(held("bench/watch-thieves.json"))
    yield from _sybils(held("bench/watch-sybils.json"))
    yield from _scan(held("bench/watch-scan.json"))
    yield from _nights(held("bench/watch-nights.json"))


def _detectors(found: dict[str, Any]) -> Iterator[str]:
    yield f"`{found['command']}`"
    ends = [row for row in found["table"] if (row["detector"], row["accounts"]) == ("prada", 10)]
    assert {row["queries at the alarm"] for row in ends} == {None}  # what these had is what they had in the end
    yield f"| copy in the end | | {' | '.join(format(row['fidelity the thief had'], '.1%') for row in ends)} |"
    for name in ("prada", "hoda", "seat", "mmd"):
        rows = [row for row in found["table"] if row["detector"] == name]
        told = {(row["attack"], row["accounts"]): row for row in rows}
        attacks = list(dict.fromkeys(row["attack"] for row in rows))
        cells = [f"{_alarm(told[attack, 1])} / {_alarm(told[attack, 10])}" for attack in attacks]
        yield f"| `{name}` | {rows[0]['false alarms']:.1%} | {' | '.join(cells)} |"
    quiet = rows[0]["false alarms interval"]
    yield f"at no false alarm among {quiet['n']} users (at most {quiet['high']:.1%})"
    yield f"are noticed after {told[attacks[-1], 1]['queries at the alarm']:.0f} queries with one account"


def _alarm(row: dict[str, Any]) -> str:
    queries = row["queries at the alarm"]
    return "silent" if queries is None else f"{queries:.0f}: {row['fidelity the thief had']:.1%}"


def _thieves(found: dict[str, Any]) -> Iterator[str]:
    short = sum(row["stated"] < row["real"] - 0.03 for row in found["rows"])
    assert short == found["more than 3 points below the real attack"]
    yield f"{len(found['rows'])} thieves, {short} of them stated more than 3 points too low"
    yield f"{100 * found['mean difference']:.1f} points above the real copy in the mean"
    yield f"{-100 * min(0.0, found['worst']):.1f} points below it in the worst"


def _sybils(found: dict[str, Any]) -> Iterator[str]:
    as_one, thieves = found["found as one, all ten accounts"], found["strange thieves"]
    yield f"{as_one} of {thieves} thieves"
    yield f"{found['honest put together with others']} of {found['honest']} honest clients"
    yield f"{found['natural accounts put together']} of {10 * found['scenes']} accounts"


def _scan(found: dict[str, Any]) -> Iterator[str]:
    yield f"`{found['command']}`"
    clock = int(found["seconds to read"] + found["seconds to rank"])
    computing = f"{found['seconds of computing for both']:.0f} of computing"
    yield f"in {clock} seconds by the clock on a busy machine ({computing}"
    yield f"at most {found['peak memory in MB']} MB"
    assert found["rows"] == found["read"] == 10_000_000
    assert found["new when read again"] == 0


def _nights(found: dict[str, Any]) -> Iterator[str]:
    yield f"`{found['command']}`"
    yield f"{len(found['runs'])} of its scenes run"
    most = exact(found["honest flagged"], found["honest"]).high
    yield f"{found['honest']} honest clients, {found['honest flagged']} flagged (at most {most:.1%})"
    yield f"{found['found before 90%']} of {found['thieves that pass 80%']} thieves that pass 80 % found before 90 %"


def test_the_page_says_what_was_measured() -> None:
    page = " ".join((ROOT / "docs" / "watch.md").read_text().split())
    assert [line for line in lines() if line not in page] == []
