"""Writes docs/papers.md: every figure, table, algorithm, theorem and lemma of the four papers beside what is here.

    python tools/papers.py            writes the page
    python tools/papers.py --check    fails where the page is not what results/ says

A number of ours comes from results/ and from nowhere else; where there is none the page says so.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from leakmeter.studies import ROWS
from leakmeter.studies.rows import NONE, Row

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "papers.md"
NOT = "not run"
COLUMNS = ("item", "in the code", "tested in", "the paper", "here", "met", "why they differ")


@dataclass(frozen=True)
class Item:
    """One thing of a paper."""

    name: str
    code: str
    test: str
    paper: str = "a statement, no number"
    ours: Callable[[], list[Row]] | str = "its test holds it"
    why: str = "–"
    missing: str = ""
    """The command that would measure it, or the rest of it, and what that costs."""
    instead: bool = True
    """Whether `missing` goes away as soon as there are rows; else it stands beside them."""


@cache
def rows(study: str, record: str = "") -> list[Row]:
    """What a study found; nothing: it was not run."""
    path = ROOT / "results" / f"{record or f'{study}/{study}'}.json"
    return ROWS[study](json.loads(path.read_text())) if path.exists() else []


def told(study: str, *begins: str, records: tuple[str, ...] = ("",)) -> Callable[[], list[Row]]:
    """The rows of a study whose names begin like this, in that order; all of them if nothing is given.

    Of several records, each a file under results/, the first that has a row tells it: those of most seeds stand first.
    """

    def found() -> list[Row]:
        known: list[Row] = []
        for record in records:
            told_already = {row.what for row in known}
            known += [row for row in rows(study, record) if row.what not in told_already]
        return [row for begin in begins or ("",) for row in known if row.what.startswith(begin)]

    return found


def run(study: str, cost: str, flags: str = "--seed 0 --seeds 3") -> str:
    """How what is missing would be had, and what that costs on one core like those the figures were taken on."""
    return f"`leakmeter study {study} {flags}`, about {cost}"


def page() -> str:
    """The whole page."""
    sys.path.insert(0, str(ROOT / "tools"))
    from papers_items import PAPERS

    lines = [
        "# The four papers, item by item",
        "",
        "Written by `python tools/papers.py` from the JSON under `results/`; a test fails where they differ.",
        "Each study's command, commit and seeds stand in its JSON; `leakmeter study NAME --list` prints all its rows.",
        "What was not run has its command and an estimate of its cost on one core. Rates over seeds have their range",
        "by seed and two intervals of 95 %: of these seeds on all inputs, and of any seed, of which nothing is assumed",
        "([which interval is of what](intervals.md)): three seeds leave the latter wide, however well they agree.",
    ]
    for title, items in PAPERS.items():
        lines += ["", f"## {title}", "", f"| {' | '.join(COLUMNS)} |", "|" + "---|" * len(COLUMNS), *map(_row, items)]
    return "\n".join(lines) + "\n"


def _row(item: Item) -> str:
    code, test = (_places(text) for text in (item.code, item.test))
    found = item.ours() if callable(item.ours) else []
    measured = [row for row in found if row.ours != "not run"]
    parts = [_told(row) for row in measured] or ([item.ours] if isinstance(item.ours, str) else [])
    if item.missing and not (measured and item.instead):
        parts.append(f"{NOT}: {item.missing}")
    cells = (item.name, code, test, item.paper, "<br>".join(parts) or NOT, _met(measured), item.why)
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"


def _told(row: Row) -> str:
    seeds = f"{row.seeds} seed{'' if row.seeds == 1 else 's'}"
    beside = "" if row.paper == NONE else f" (paper: {row.paper})"
    return f"{row.what}: {row.ours}{beside}; {seeds}; {row.budget}"


def _met(found: list[Row]) -> str:
    counts = Counter(row.verdict for row in found)
    return ", ".join(f"{number} {verdict}" for verdict, number in counts.items()) or "–"


def _places(text: str) -> str:
    return ", ".join(f"`{place}`" for place in text.split()) or "–"


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.read_text() == page() else "docs/papers.md has drifted: run python tools/papers.py")
    PAGE.write_text(page())
