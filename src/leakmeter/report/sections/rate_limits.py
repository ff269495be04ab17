"""Rate limits: how long the cheapest copy takes at the limit in force, and which limit makes it take a month."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from leakmeter.report.blocks import Numeric, Paragraph, Row, Section, Table
from leakmeter.report.surfaces import surfaces
from leakmeter.report.words import at_most, count, days
from leakmeter.results import AuditResult
from leakmeter.verdict.sentences import MONTH, RATE


@dataclass(frozen=True)
class LimitAdvice:
    """What a rate limit does to the cheapest attacker."""

    shown: str
    label: str
    fidelity: float
    queries: int
    bound: bool
    """Whether fewer queries may do."""
    days: float
    """At the limit in force."""
    monthly: int
    """The most queries a day that make the copy take a month."""
    money: float | None


def section(result: AuditResult, _: Path) -> Section | None:
    """Left out where no attacker made a copy of any fidelity asked about."""
    rows = limit_advice(result)
    if not rows:
        return None
    currency = (result.plan.get("prices") or {}).get("currency")
    columns = ["Shown", Numeric("Copy"), "Cheapest attack", Numeric("Queries")]
    columns += [Numeric(f"Price ({currency})")] if currency else []
    columns += [Numeric(f"At {count(per_day(result))} a day"), Numeric("A month, at most")]
    stands_in = (
        "" if result.plan.get("queries_per_day") else f"; the plan states no limit, so {RATE:,} queries a day stand in"
    )
    lead = (
        "OWASP's AI Security Verification Standard asks for rate limits sized to the number of queries needed to "
        f"approximate the model. This is that number, for the cheapest attack tried{stands_in}."
    )
    table = Table(
        "How long a copy takes, and the limit that makes it take a month", columns, [_row(row) for row in rows]
    )
    warning = "A limit holds for one client. An attacker with many accounts has many limits."
    return Section("rate-limits", "Rate limits", [Paragraph(lead, muted=True), table, Paragraph(warning, muted=True)])


def per_day(result: AuditResult) -> int:
    """The rate limit the advice is about."""
    return int(result.plan.get("queries_per_day") or RATE)


def limit_advice(result: AuditResult) -> list[LimitAdvice]:
    """For each surface, and each fidelity some attacker reached there."""
    price = (result.plan.get("prices") or {}).get("query")
    rows = []
    for surface in surfaces(result):
        for fidelity in dict.fromkeys(cost.fidelity for arm in surface.attackers for cost in arm.costs):
            found = surface.cheapest(fidelity)
            if found is not None:
                queries, arm = found
                rows.append(
                    LimitAdvice(
                        shown=surface.name,
                        label=arm.label,
                        fidelity=fidelity,
                        queries=queries,
                        bound=at_most(arm, queries),
                        days=queries / per_day(result),
                        monthly=max(1, queries // MONTH),
                        money=None if price is None else price * queries,
                    )
                )
    return rows


def _row(each: LimitAdvice) -> Row:
    queries = f"{'≤ ' if each.bound else ''}{count(each.queries)}"
    money = [] if each.money is None else [f"{each.money:,.2f}"]
    copy = f"{each.fidelity:.0%}"
    return Row(each.shown, copy, each.label, queries, *money, days(each.days), f"{count(each.monthly)} a day")
