"""Rate limits: how long the cheapest copy takes at the limit in force, and which limit makes it take a month."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from leakmeter.report.blocks import Numeric, Paragraph, Row, Section, Table
from leakmeter.report.surfaces import surfaces
from leakmeter.report.words import cost_words, count, days
from leakmeter.results import AuditResult
from leakmeter.verdict.arms import FIDELITIES
from leakmeter.verdict.sentences import MONTH, RATE


def section(result: AuditResult, _: Path) -> Section | None:
    """Left out where no attacker made a copy of any fidelity asked about."""
    rows = list(_rows(result))
    if not rows:
        return None
    price = [Numeric(f"Price ({result.plan['prices']['currency']})")] if result.plan.get("prices") else []
    limits = (Numeric(f"At {count(per_day(result))} a day"), Numeric("A month, at most"))
    columns = ("Shown", Numeric("Copy"), "Cheapest attack", Numeric("Queries"), *price, *limits)
    stands_in = "" if result.plan.get("queries_per_day") else f"; no limit was stated, so {RATE:,} a day stand in"
    lead = (
        "OWASP's AI Security Verification Standard asks for rate limits sized to the number of queries needed to "
        f"approximate the model. This is that number, for the cheapest attack tried{stands_in}."
    )
    table = Table("How long a copy takes, and the limit that makes it take a month", columns, rows)
    warning = Paragraph("A limit holds for one client. An attacker with many accounts has many limits.", muted=True)
    return Section("rate-limits", "Rate limits", lead, [table, warning])


def per_day(result: AuditResult) -> int:
    """The rate limit the advice is about."""
    return int(result.plan.get("queries_per_day") or RATE)


def monthly(queries: int) -> int | None:
    """The most queries a day that make what so many queries do not buy take a month; None: not even one a day."""
    return queries // MONTH or None


def _rows(result: AuditResult) -> Iterator[Row]:
    """One for each surface, and each fidelity some attacker reached there."""
    prices = result.plan.get("prices")
    for surface in surfaces(result):
        for fidelity in FIDELITIES:
            found = surface.cheapest(fidelity)
            if found is not None:
                (cost, arm), queries = found, found[0].cheapest or 0
                yield Row(
                    surface.name,
                    f"{fidelity:.0%}",
                    surface.named(arm),
                    cost_words(arm, cost)[0],
                    *([f"{prices['query'] * queries:,.2f}"] if prices else []),
                    days(queries / per_day(result)),
                    _limit(monthly(cost.short if cost.tries else queries - 1)),
                )


def _limit(a_day: int | None) -> str:
    return "no limit known" if a_day is None else f"{count(a_day)} a day"
