"""Certified accuracy: how often the model is right, with a proof, against the radius of the proof."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from leakmeter.report.blocks import Chart, Numeric, Row, Section, Table
from leakmeter.report.charts import SERIES, End, label, name_ends, share_axis
from leakmeter.report.words import count, percent, plain_text
from leakmeter.results import AuditResult, Certified


def section(result: AuditResult, _: Path) -> Section | None:
    """Left out where nothing was certified."""
    if result.certified is None:
        return None
    lead = (
        "The fraction of test inputs classified correctly with a proof that no change within the radius alters the "
        "answer."
    )
    chart = certified_chart(result.certified)
    return Section("certified", "Certified accuracy", lead, [chart])


def certified_chart(curve: Certified) -> Chart:
    """Between two measured radii the curve shows the value of the larger one, which is what is known."""
    rows = [
        Row(f"{curve.norm} {radius:.3g}", percent(accuracy), count(curve.n), f"{curve.alpha:g}")
        for radius, accuracy in curve.points
    ]
    columns = ("Radius", Numeric("Certified accuracy"), Numeric("Inputs"), Numeric("Alpha"))
    description = f"{curve.label}: " + "; ".join(
        f"{percent(accuracy)} at {radius:.3g}" for radius, accuracy in curve.points
    )
    title = f"Certified accuracy by radius, {curve.label}"
    return Chart(title, description, partial(_draw, curve), Table(title, columns, rows))


def _draw(curve: Certified, axes: Any) -> None:
    radii, values = zip(*sorted(curve.points), strict=True) if curve.points else ((0.0,), (0.0,))
    axes.step(radii, values, where="pre", color=SERIES[0])
    axes.set_xlim(left=0)
    axes.set_xlabel(f"{plain_text(curve.norm, 12)} radius")
    share_axis(axes, "certified accuracy")
    name_ends(axes, [End(values[-1], label(curve.label), SERIES[0], "s", radii[-1])])
