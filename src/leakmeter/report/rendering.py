"""What a template is given: filters, words, and the facts of one result."""

from __future__ import annotations

from typing import Any

import tomli_w
from jinja2 import Environment, PackageLoader, StrictUndefined

from leakmeter.detectors.detection import Detection
from leakmeter.report import facts, words
from leakmeter.report.notes import noted
from leakmeter.results import AuditResult
from leakmeter.runs.run import without_none

_OPTIONAL_COLUMNS = ("explanations", "cached", "unconfirmed", "work", "evaluation")


def environment() -> Environment:
    """Templates that escape every value, and in which a name that does not exist is an error, never an empty space."""
    made = Environment(
        loader=PackageLoader("leakmeter.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for each in (words.percent, words.count, words.duration, words.days):
        made.filters[each.__name__] = each
    made.globals |= {"words": words}
    return made


def context(result: AuditResult) -> dict[str, Any]:
    """The facts a report is written from."""
    verdict = result.verdict
    shown = facts.surfaces(result)
    bills = facts.bills(result)
    prices = result.plan.get("prices") or {}
    return {
        "result": result,
        "verdict": verdict,
        "figures": words.headline_facts(result),
        "failed_checks": [check for check in verdict.checks if not check.ok],
        "unfinished": [cell for cell in result.cells if cell.status != "done"],
        "surfaces": shown,
        "heat": facts.heat(shown),
        "views": list(dict.fromkeys(surface.view for surface in shown)),
        "levels": [cost.fidelity for cost in verdict.arms[0].costs] if verdict.arms else [],
        "seeds": max((arm.seeds for arm in verdict.arms), default=0),
        "rates": facts.rates(result),
        "per_day": facts.per_day(result),
        "currency": prices.get("currency"),
        "bills": bills,
        "columns": [what for what in _OPTIONAL_COLUMNS if any(bill.total(what) for bill in bills)],
        "defenses": facts.defense_rows(result),
        "transfers": facts.transfers(result),
        "detections": facts.detections(result),
        "detections_other": noted(result, "detector", Detection)[1],
        "certified": [] if result.certified is None else [result.certified],
        "plan_toml": tomli_w.dumps(without_none(result.plan)),
    }
