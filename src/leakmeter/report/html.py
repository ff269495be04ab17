"""`report.html`: one self-contained file, without a script, whose own policy forbids it to load anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from leakmeter.report.facts import DefenseRow, Surface
from leakmeter.report.pictures import Gallery, gallery
from leakmeter.report.rendering import context, environment
from leakmeter.results import AuditResult


@dataclass(frozen=True)
class Section:
    """A part of the page; one with nothing to show is left out."""

    id: str
    title: str
    template: str
    shown: bool = True
    lead: str = ""
    alt: str = ""


def report_html(result: AuditResult, folder: Path) -> str:
    """The whole report; pictures come from the run `folder`, and are simply absent where there are none."""
    told = context(result)
    galleries = {
        "queries": gallery(result, folder, "queries.png"),
        "adversarial": gallery(result, folder, "adversarial.png"),
    }
    told |= {"galleries": galleries, **_charts(told)}
    told["sections"] = [section for section in _sections(told, galleries) if section.shown]
    return environment().get_template("report.html").render(told)


def summary_html(result: AuditResult) -> str:
    """The verdict alone, for notebooks."""
    return environment().get_template("summary.html").render(context(result))


def _sections(told: dict[str, Any], galleries: dict[str, Gallery]) -> list[Section]:
    return [
        Section("copy-cost", "What a copy costs", "copy_cost.html"),
        Section("heat-map", "Attack by view", "heat.html", bool(told["surfaces"])),
        Section("rate-limits", "Rate limits", "rates.html", bool(told["rates"])),
        Section(
            "queries",
            "What the attacker asked",
            "pictures.html",
            bool(galleries["queries"].shown),
            "The first inputs each attack sent.",
            "The first inputs sent by",
        ),
        Section("transfer", "What the copy is good for", "transfer.html", bool(told["transfers"])),
        Section(
            "adversarial",
            "Adversarial examples",
            "pictures.html",
            bool(galleries["adversarial"].shown),
            "Inputs changed a little, on the copy, until the answer changed.",
            "Adversarial examples from the copy made by",
        ),
        Section("defenses", "Defenses", "defenses.html", bool(told["defenses"])),
        Section("detection", "Detection", "detection.html", bool(told["detections"] or told["detections_other"])),
        Section("certified", "Certified accuracy", "certified.html", bool(told["certified"])),
        Section("checks", "Can this audit be believed?", "checks.html"),
        Section("spending", "What was spent", "spending.html"),
        Section("reproduce", "Reproduce it", "reproduce.html"),
        Section("limits", "What this report shows, and what not", "limits.html"),
    ]


def _charts(told: dict[str, Any]) -> dict[str, Any]:
    from leakmeter.report.charts import certified_chart, cost_chart

    surfaces: list[Surface] = told["surfaces"]
    return {
        "cost_charts": [(each, Markup(cost_chart(each, f"cost-{each.key}"))) for each in surfaces],
        "defended": any(each.defense != "none" for each in surfaces),
        "defense_charts": _defense_charts(told["defenses"]),
        "certified_chart": Markup(certified_chart(told["certified"], "certified-accuracy"))
        if told["certified"]
        else "",
    }


def _defense_charts(rows: Sequence[DefenseRow]) -> list[tuple[Markup, str]]:
    """One for each view and each cost that was measured under it."""
    from leakmeter.report.charts import COSTS, defense_chart

    charts = []
    for key, view in enumerate(dict.fromkeys(row.view for row in rows)):
        shown = [row for row in rows if row.view == view]
        charts += [
            (Markup(defense_chart(shown, cost, f"defense-{key}-{cost}")), f"Showing {view}: {what}")
            for cost, what in COSTS.items()
            if any(getattr(row, cost) is not None for row in shown)
        ]
    return charts
