"""The report of a watch, from its record alone: `results.json`, `report.html`, `report.md`, `junit.xml`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from leakmeter.files import write_atomic, writing
from leakmeter.report.blocks import (
    Block,
    Chart,
    Document,
    Entry,
    Facts,
    Headline,
    Numeric,
    Paragraph,
    Row,
    Section,
    Table,
)
from leakmeter.report.charts import SERIES, End, label, name_ends, query_axis, share_axis, styles
from leakmeter.report.html import document_html
from leakmeter.report.junit import verdict_xml
from leakmeter.report.markdown import document_markdown
from leakmeter.report.words import count, outcome_words, percent, plain_text, span, tone
from leakmeter.watch.record import ClientCopy, WatchResult

_LIMITS = (
    "A fidelity here is that of the best copy that leakmeter's thieves make of these answers: one who chooses (auto), "
    "and some who know one way only; another may do better. Clients that ask as honest users do cannot be told to be "
    "one by likeness. Those not looked at are counted above, and nothing is said of them."
)

_LONG = 3650.0  # days, beyond which a forecast says no number


def write_watch(result: WatchResult, folder: Path) -> None:
    """All forms of a result, into one folder."""
    document = watch_document(result)
    with writing(folder):
        write_atomic(folder / "results.json", result.model_dump_json(indent=2).encode())
        write_atomic(folder / "report.html", document_html(document).encode())
        write_atomic(folder / "report.md", document_markdown(document).encode())
        write_atomic(folder / "junit.xml", verdict_xml(result.verdict, result.created).encode())


def watch_document(result: WatchResult) -> Document:
    """The report that every format writes down."""
    sections = [_verdict(result), _clients(result), _false_alarms(result), _log(result)]
    return Document(
        title=f"{result.plan.get('name') or 'watch'}: who copies {result.victim.name}",
        sections=[section for section in sections if section is not None],
        footer=f"Written by leakmeter {result.environment.get('leakmeter', '')} from results.json (schema "
        f"{result.schema_version}). This page loads nothing and sends nothing.",
    )


def watch_text(result: WatchResult) -> str:
    """A few lines for a terminal."""
    verdict = result.verdict
    lines = [f"{outcome_words(verdict).upper()}: {verdict.headline}", *verdict.sentences, ""]
    lines += [
        f"  {plain_text(each.client, 40):40} {each.queries:>9,} queries  fidelity {each.fidelity:6.1%} "
        f"({span(each.interval.low, each.interval.high)}){'  honest' if each.honest else ''}"
        for each in result.clients[:15]
    ]
    lines.append(_left_out(result))
    lines += [f"policy: {each.rule}: {each.outcome}: {each.message}" for each in verdict.rulings]
    lines += [f"check failed: {each.name}: {each.message}; {each.means}" for each in verdict.checks if not each.ok]
    return "\n".join(lines)


def _left_out(result: WatchResult) -> str:
    known = f"{count(result.seen)} {'client' if result.seen == 1 else 'clients'} in the log"
    return (
        f"{known}: {count(result.too_few)} with too few different queries and {count(result.ranked_lower)} ranked "
        "lower were not looked at"
    )


def _verdict(result: WatchResult) -> Section:
    verdict = result.verdict
    headline = Headline(
        eyebrow=f"Watch over {result.victim.name} · {result.created[:10]}",
        badge=outcome_words(verdict),
        tone=tone(verdict.outcome, decided=verdict.rulings != []),
        text=verdict.headline,
    )
    rulings = [Row(each.rule, Entry(each.outcome, tone=tone(each.outcome)), each.message) for each in verdict.rulings]
    checks = [Row(each.name, "good" if each.ok else "failed", each.message) for each in verdict.checks]
    blocks: list[Block] = [headline, *map(Paragraph, verdict.sentences)]
    blocks += [Table("The policy", ("Rule", "Outcome", "Why"), rulings), Table("Checks", ("Check", "", ""), checks)]
    return Section("verdict", "Verdict", "", blocks, summary=True)


def _clients(result: WatchResult) -> Section | None:
    if not result.clients:
        return None
    names = ("Queries", "Different", "Classes", "Coverage", "Fidelity", f"Reaches {result.line:.0%} in")
    table = Table(
        "The best copy first",
        ("Client", *map(Numeric, names), "Detectors"),
        [_row(each) for each in result.clients],
    )
    members = [Row(each.client, each.by, ", ".join(each.clients)) for each in result.clients if each.clients]
    grown = [each for each in result.clients if len(each.growth) > 1][: len(SERIES)]
    said = "; ".join(map(_grew, grown))
    blocks: list[Block] = [table, Table("Looked at as one", ("Coalition", "By", "Clients"), members)]
    if grown:
        blocks.append(Chart("How copies grew", said, lambda axes: _draw(axes, grown, result.line)))
    blocks += [Paragraph(_left_out(result)), Paragraph(_LIMITS, muted=True)]
    lead = (
        "How good a copy each client's answers buy now: several were trained on them, and the best is told. Classes: "
        "how evenly the answers name them; coverage: the share of test inputs that a query comes near."
    )
    return Section("clients", "Clients", lead, blocks)


def _row(each: ClientCopy) -> Row:
    fired = [f"{one.detector} at {count(one.fired_at)}" for one in each.detectors if one.fired_at is not None]
    return Row(
        Entry(each.client, f"{_days(each.first, each.last)}, sees {each.view}"),
        count(each.queries),
        count(each.different),
        percent(each.balance),
        percent(each.coverage),
        Entry(
            percent(each.fidelity),
            f"{span(each.interval.low, each.interval.high)}, by {max(each.thieves, key=each.thieves.__getitem__)}",
            tone="bad" if each.alarm else "plain",
        ),
        _ahead(each),
        ", ".join(fired) or "silent",
        control=each.honest,
    )


def _days(first: str, last: str) -> str:
    """From which day to which; the moments stand in results.json."""
    days = [moment.partition("T")[0] for moment in (first, last)]
    return days[0] if days[0] == days[1] else f"{days[0]} to {days[1]}"


def _ahead(each: ClientCopy) -> Entry:
    """When the line is reached at the present rate."""
    if each.alarm:
        return Entry("reached")
    ahead = each.forecast
    if ahead is None or ahead.rate is None:
        return Entry("–")
    middle = "not at this rate" if ahead.days is None else _span(ahead.days, " days")
    ends = f"{_span(ahead.days_low)} to {_span(ahead.days_high)}"
    return Entry(middle, f"{ends}; {ahead.rate:,.0f} queries a day", tone="bad" if each.soon else "plain")


def _span(days: float | None, unit: str = "") -> str:
    if days is None:
        return "never"
    return f"{days:,.1f}{unit}" if days < _LONG else "over ten years"


def _grew(each: ClientCopy) -> str:
    """The points of the curve."""
    first, *others = each.growth
    later = "".join(f", {percent(point.fidelity)} at {count(point.queries)}" for point in others)
    return f"{each.client} {percent(first.fidelity)} at {count(first.queries)} queries{later}"


def _draw(axes: Any, grown: list[ClientCopy], line: float) -> None:
    ends = [End(line, "the line")]
    axes.axhline(line, linewidth=1, linestyle="--", color=ends[0].color)
    query_axis(axes, sorted({point.queries for each in grown for point in each.growth}))
    for each, (color, marker) in zip(grown, styles(), strict=False):
        queries, rates = [p.queries for p in each.growth], [p.fidelity for p in each.growth]
        axes.plot(queries, rates, color=color, marker=marker, markersize=4)
        ends.append(End(rates[-1], label(each.client), color, marker, queries[-1]))
    share_axis(axes, "fidelity")
    name_ends(axes, ends)


def _false_alarms(result: WatchResult) -> Section:
    lead = "How many of the clients that the owner declares honest would be taken for thieves at each threshold."
    if not result.false_alarms:
        lead = "No client is declared honest ([log] honest or honest_column), so false alarms could not be counted."
    rows = [
        Row(each.what, count(each.honest), count(each.flagged), span(each.interval.low, each.interval.high))
        for each in result.false_alarms
    ]
    table = Table(
        "False alarms", ("Alarm", Numeric("Honest clients"), Numeric("Flagged"), Numeric("Rate, 95% interval")), rows
    )
    return Section("false-alarms", "False alarms", lead, [table])


def _log(result: WatchResult) -> Section:
    reading = result.reading
    facts = [
        ("Files", f"{reading.files}, {reading.unchanged} unchanged since the last run, {reading.rotated} rotated"),
        ("Lines", f"{count(reading.lines)}, {count(reading.new)} new"),
        ("Broken or half-written", count(reading.broken)),
        ("Repeated", count(reading.repeated)),
        ("Not readable", "; ".join(reading.unreadable) or "none"),
    ]
    return Section("log", "The log", "What was read, and what had to be left out.", [Facts(facts)])
