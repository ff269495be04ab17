"""One picture: what explanations leak against what they tell, and those that no other beats in both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

PAPER = ("gradient", "smoothgrad:10,0.1")
"""What Milli et al. (2018) measured."""


def front(points: dict[str, tuple[float, float]]) -> list[str]:
    """The names of (leak, usefulness) that no other point beats: none leaks less and tells as much, or more."""

    def beaten(name: str) -> bool:
        leak, use = points[name]
        return any(
            (less <= leak and more >= use) and (less < leak or more > use)
            for other, (less, more) in points.items()
            if other != name
        )

    return sorted((name for name in points if not beaten(name)), key=lambda name: points[name])


def draw(tables: dict[str, Any], leak: str, path: Path) -> None:
    """A panel for each victim; the front as a line, the paper's two explanations marked."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5 * len(tables), 4.5), layout="constrained")
    for axes, (name, rows) in zip(figure.subplots(1, len(tables), squeeze=False)[0], tables.items(), strict=True):
        points = leaks(rows)
        best = front(points)
        axes.plot([points[each][0] for each in best], [points[each][1] for each in best], color="tab:green", zorder=1)
        for row, point in points.items():
            axes.scatter(*point, color="tab:red" if row in PAPER else "tab:blue", zorder=2)
            axes.annotate(row, point, fontsize=6, xytext=(3, 3), textcoords="offset points")
        axes.set(title=name, xlabel=leak, ylabel="insertion less deletion AUC")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def leaks(rows: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """For each explanation that is a map: the fidelity at the first stop, where they differ most, and its use."""
    return {
        row: (next(iter(facts["fidelity"].values()))["mean"], facts["useful"]["gap"]["median"])
        for row, facts in rows.items()
        if facts["useful"]
    }
