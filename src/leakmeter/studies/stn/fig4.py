"""Figure 4 of STN (appendix A): the bounds side by side as functions of p1 and p2, at sigma 1."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from leakmeter.certificates import pixeldp_analytic_radius, pixeldp_radius, renyi_radius, tight_radius
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import Row

BOUNDS = {
    "tight": tight_radius,
    "pixeldp, analytic": pixeldp_analytic_radius,
    "renyi (STN)": renyi_radius,
    "pixeldp": pixeldp_radius,
}
SPREADS = {"p2 = 1 − p1": 1, "p2 = (1 − p1) / 9": 9}


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `stn-fig4.json` and `.png`. Nothing is random here: seeds, data and device do not matter."""
    record = settings.record("stn-fig4", sigma=1.0)
    points = 25 if settings.quick else 100
    for title, spread in SPREADS.items():
        record.cell(title, partial(_curve, spread, points))
    found = record.write(
        region=_region(points),
        paper="Figure 4: the Rényi bound is above PixelDP's wherever p1 + p2 >= 0.2, more than twice it far apart",
    )
    _draw(found, settings.out / "stn-fig4.png")
    return found


def rows(found: dict[str, Any]) -> list[Row]:
    """The Rényi bound over PixelDP's, at the worst place of the region."""
    region = found["region"]
    least, budget = region["renyi_over_pixeldp"][0], f"{region['points']:,} points, no randomness"
    return [Row("Rényi over PixelDP, least", f"{least:.3f}", budget, paper="above 1", met=least > 1)]


def _curve(spread: int, points: int) -> dict[str, list[float]]:
    """The radii along a line; with ten classes p1 starts where it leaves the others behind."""
    least = 0.5 if spread == 1 else 0.1
    p1 = np.linspace(least, 0.999, points + 1)[1:]
    p2 = np.minimum((1 - p1) / spread, 1 - p1)
    return {"p1": p1.tolist(), **{name: bound(p1, p2, 1.0).tolist() for name, bound in BOUNDS.items()}}


def _region(points: int) -> dict[str, Any]:
    """How the bounds compare over the paper's whole region."""
    p1, p2 = (axis.ravel() for axis in np.meshgrid(*[np.linspace(0.002, 0.998, 2 * points)] * 2))
    inside = (p1 > p2) & (p1 + p2 <= 1) & (p1 + p2 >= 0.2)
    p1, p2 = p1[inside], p2[inside]
    tight, renyi, pixeldp = (bound(p1, p2, 1.0) for bound in (tight_radius, renyi_radius, pixeldp_radius))
    return {
        "points": len(p1),
        "renyi_over_pixeldp": [float((renyi / pixeldp).min()), float((renyi / pixeldp).max())],
        "renyi_over_tight": [float((renyi / tight).min()), float((renyi / tight).max())],
        "share_where_renyi_is_over_twice_pixeldp": float((renyi > 2 * pixeldp).mean()),
    }


def _draw(found: dict[str, Any], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    for axes, title in zip(figure.subplots(1, 2), SPREADS, strict=True):
        cell = found["cells"][title]
        for name in BOUNDS:
            axes.plot(cell["p1"], cell[name], label=name)
        axes.set(title=title, xlabel="p1", ylabel="radius / σ", ylim=(0, 3.5))
    figure.axes[0].legend()
    figure.savefig(path, dpi=150)
