"""Explanations: how good a copy becomes when answers are explained, the least telling to a thief first."""

from __future__ import annotations

from pathlib import Path

from leakmeter.report.blocks import Entry, Numeric, Row, Section, Table
from leakmeter.report.words import count, percent
from leakmeter.results import AuditResult
from leakmeter.verdict.explanations import Explained, compared, copies_without

_MOST = 5  # numbers of queries that a table has room for


def section(result: AuditResult, _: Path) -> Section | None:
    """Left out where no explanation was shown."""
    found = compared(result.cells)
    if not found:
        return None
    lead = (
        "What showing each explanation costs: the best copy a thief holds after so many queries, in the mean over "
        "tries, and how many times fewer queries a copy takes than without it. A thief may ignore what is shown, so no "
        "row reads safer than showing nothing. The least dear explanation stands first."
    )
    tables = [_table(result, plain, found) for plain in dict.fromkeys(each.plain for each in found)]
    return Section("explanations", "What explanations cost", lead, tables)


def _table(result: AuditResult, plain: str, found: list[Explained]) -> Table:
    nothing = copies_without(result.cells, plain)
    here = [each for each in found if each.plain == plain]
    stops = _some(sorted({n for each in here for n in each.copies} | set(nothing)))
    measured = sorted((each for each in here if each.copies), key=lambda each: _leak(each, stops))
    rows = [Row("nothing", *(Entry(_copy(nothing, n)) for n in stops), "", control=True)] if nothing else []
    rows += [Row(each.explanation, *(Entry(_copy(each.copies, n)) for n in stops), _times(each)) for each in measured]
    rows += [Row(each.explanation, *("–" for _ in stops), "not measured") for each in here if not each.copies]
    names = [Numeric(f"{count(n)} quer{'y' if n == 1 else 'ies'}") for n in stops]
    return Table(f"Shown beside {plain}", ("Explanation", *names, Numeric("Times cheaper")), rows)


def _some(stops: list[int]) -> list[int]:
    """As many as there is room for, the first and the last among them."""
    if len(stops) <= _MOST:
        return stops
    return [stops[round(place * (len(stops) - 1) / (_MOST - 1))] for place in range(_MOST)]


def _leak(each: Explained, stops: list[int]) -> float:
    """Copies from few queries and from many count alike."""
    return sum(each.copies.get(n, 0.0) for n in stops)


def _copy(copies: dict[int, float], queries: int) -> str:
    return percent(copies.get(queries))


def _times(each: Explained) -> Entry:
    if each.found is None:
        return Entry("–", "not as far as these stops tell")
    found, bound = each.found, "at least " if each.found.at_least else ""
    ends = f"{found.interval.low:.3g} to {found.interval.high:.3g}"
    return Entry(f"{bound}{found.times:.3g}", f"{ends}, for a {found.level:.0%} copy")
