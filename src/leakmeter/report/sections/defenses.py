"""Defenses: what each takes from the best copy, and what it takes from honest users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from leakmeter.evaluation.utility import Utility
from leakmeter.report.blocks import Chart, Numeric, Row, Section, Table
from leakmeter.report.charts import MOST, End, label, name_ends, share_axis, styles
from leakmeter.report.notes import noted
from leakmeter.report.surfaces import best_copy, surfaces
from leakmeter.report.words import percent
from leakmeter.results import AuditResult

_COSTS = {"accuracy_loss": "accuracy lost by honest users", "distortion": "probability moved for honest users"}


@dataclass(frozen=True)
class DefenseEffect:
    """What a defense buys under one view, and what it costs the honest user."""

    defense: str
    view: str
    attack: str
    """The attacker who made the best copy, and what it throws away."""
    fidelity: float
    """Of that copy."""
    gain: float | None
    """How much lower the best copy is than with no defense under the same view."""
    accuracy_loss: float | None
    distortion: float | None


def section(result: AuditResult, _: Path) -> Section | None:
    """Left out where no defense was tried."""
    effects = defense_effects(result)
    if not effects:
        return None
    lead = (
        "What each defense takes from the best copy any attack made, and what it takes from honest users. A good "
        "defense lies low and to the left."
    )
    rates = ("Fidelity", "Taken from the copy", "Accuracy lost", "Probability moved")
    rows = [
        Row(
            each.defense,
            each.view,
            each.attack,
            *map(percent, (each.fidelity, each.gain, each.accuracy_loss, each.distortion)),
        )
        for each in effects
    ]
    table = Table(
        "The best attack against each defense", ("Defense", "View", "Best attack", *map(Numeric, rates)), rows
    )
    return Section("defenses", "Defenses", lead, [*_charts(effects), table])


def defense_effects(result: AuditResult) -> list[DefenseEffect]:
    """Each defense under each view; nothing where no defense was tried."""
    found = surfaces(result)
    if all(surface.defense == "none" for surface in found):
        return []
    bare = {surface.view: surface.best for surface in found if surface.defense == "none"}
    utilities = {(cell.view, cell.defense): utility for cell, utility in reversed(noted(result, "utility", Utility)[0])}
    effects = []
    for surface in found:
        best, before = surface.best, bare.get(surface.view)
        if best is not None:
            gain = None if before is None else best_copy(before) - best_copy(best)
            paid = utilities.get((surface.view, surface.defense), Utility())
            effects.append(
                DefenseEffect(
                    surface.defense,
                    surface.view,
                    surface.named(best),
                    best_copy(best),
                    gain,
                    paid.accuracy_loss,
                    paid.distortion,
                )
            )
    return effects


def _charts(effects: Sequence[DefenseEffect]) -> list[Chart]:
    """One for each view and each cost that was measured under it."""
    charts = []
    for view in dict.fromkeys(each.view for each in effects):
        for cost in _COSTS:
            points = [(getattr(each, cost), each) for each in effects if each.view == view]
            if any(lost is not None for lost, _ in points):
                charts.append(defense_chart(view, cost, [point for point in points if point[0] is not None]))
    return charts


def defense_chart(view: str, cost: str, points: Sequence[tuple[float, DefenseEffect]]) -> Chart:
    """Best copy under one view against what honest users lose: `accuracy_loss` or `distortion`."""
    told = "; ".join(f"{each.defense}: {percent(each.fidelity)} at {percent(lost)}" for lost, each in points)
    return Chart(f"Showing {view}: the best copy against {_COSTS[cost]}", told, partial(_draw, cost, points))


def _draw(cost: str, points: Sequence[tuple[float, DefenseEffect]], axes: Any) -> None:
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    ends = []
    for (lost, each), (color, marker) in zip(points[:MOST], styles(), strict=False):
        axes.plot(lost, each.fidelity, marker, color=color, markersize=7, clip_on=False)
        ends.append(End(each.fidelity, label(each.defense), color, marker, lost))
    axes.set_xlim(min(0.0, *(lost for lost, _ in points)), 1.15 * max(lost for lost, _ in points) or 0.01)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=None))
    axes.set_xlabel(_COSTS[cost])
    share_axis(axes, "fidelity of the best copy")
    name_ends(axes, ends)
