"""The study of explanations as text: tables of what each makes a copy cost and tells, and which costs least."""

from __future__ import annotations

from typing import Any

from leakmeter.studies.ours._pareto import NONE, cheapest, front, leak_of, leaks

Facts = dict[str, Any]
TITLES = {
    "table": "a network of 20 and 10 units on Adult",
    "trees": "100 boosted trees on COMPAS",
    "pictures": "LeNet on MNIST",
}


def page(found: dict[str, Any]) -> str:
    """The part of docs/explanations.md that is the study's: a table for each kind of victim, and what to read of it."""
    parts = []
    for name, rows in found["table"].items():
        seeds = rows[NONE]["seeds"]
        best = ", ".join(f"`{each}`" for each in front(leaks(rows)))
        title = TITLES[name]
        parts += [f"{title[0].upper()}{title[1:]} ({seeds} seed{'s' * (seeds > 1)}, commit {found['commit'][:7]}):"]
        parts += [
            "\n".join(markdown(rows)),
            f"Beaten by no other, from the cheapest on: {best}.\nCosts least, {_least(name, rows)}.",
        ]
    return "\n\n".join(parts)


def sentence(found: dict[str, Any]) -> str:
    """Which explanation costs an owner least for what it tells, of each kind of victim."""
    return "; ".join(_least(name, rows) for name, rows in found["table"].items())


def _least(name: str, rows: dict[str, Facts]) -> str:
    points, blind = leaks(rows), leak_of(rows[NONE])["mean"]
    row = cheapest(points)
    leak, use = points[row]
    most = max(use for _, use in points.values())
    return f"{TITLES[name]}: `{row}`, {leak:.3f} (nothing shown {blind:.3f}), tells {use:.3f} of {most:.3f}"


def markdown(rows: dict[str, Facts]) -> list[str]:
    """One line for each explanation of one kind of victim, below the names of the columns."""
    fewest = min((facts["fidelity"] for facts in rows.values()), key=len)
    stops = list(fewest)  # who is shown nothing may have been looked at once more
    levels = list(next(iter(rows.values()))["queries"])
    costs = [column for level in levels for column in (f"queries to {level}", "times cheaper")]
    names = ["shown", *(f"{int(stop):,} queries" for stop in stops), *costs, "tells"]
    return [_joined(names), "|---" * len(names) + "|", *(line(row, facts, stops) for row, facts in rows.items())]


def line(row: str, facts: Facts, stops: list[Any]) -> str:
    """Fidelity at each stop, the queries to each level, the factor against nothing shown, insertion less deletion."""
    fidelity = [f"{facts['fidelity'][stop]['mean']:.3f}" for stop in stops]
    costs = [
        text for level in facts["queries"] for text in (_queries(facts["queries"][level]), _times(facts, row, level))
    ]
    tells = facts["useful"].get("gap", {}).get("median")
    return _joined([f"`{row}`", *fidelity, *costs, "" if tells is None else f"{tells:.3f}"])


def _queries(found: list[Any]) -> str:
    """Between how many queries the level was reached, over the seeds; None: not even by the thief shown nothing."""
    reached = [each for each in found if each is not None]
    if not reached:
        return "not reached"
    low, high = min(each[0] for each in reached), max(each[1] for each in reached)
    return f"{low:,} to {high:,}" + ("" if len(reached) == len(found) else f" in {len(reached)} of {len(found)}")


def _times(facts: Facts, row: str, level: str) -> str:
    found = facts["cheaper"][level]
    if found is None or row == NONE:
        return ""
    ends = found["interval"]
    return f"{found['times']:.3g} ({ends['low']:.3g} to {ends['high']:.3g})"


def _joined(cells: list[str]) -> str:
    return " ".join(f"| {' | '.join(cells)} |".split())
