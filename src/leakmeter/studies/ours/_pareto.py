"""One picture: what explanations leak against what they tell, and those that no other beats in both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

NONE = "nothing"
FEWEST = 10
"""Queries after which leaks are compared: there they differ most."""
_NEARLY = 0.9
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


def cheapest(points: dict[str, tuple[float, float]]) -> str:
    """Of those that tell at least nine tenths of what the most telling does, the one that leaks least."""
    most = max(use for _, use in points.values())
    return min((name for name, (_, use) in points.items() if use >= _NEARLY * most), key=lambda name: points[name][0])


def draw(tables: dict[str, Any], leak: str, path: Path) -> None:
    """A panel for each victim; the front as a line, the paper's two explanations marked."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5 * len(tables), 4.5), layout="constrained")
    for axes, (name, rows) in zip(figure.subplots(1, len(tables), squeeze=False)[0], tables.items(), strict=True):
        points = leaks(rows)
        best = front(points)
        line = [points[each] for each in best]
        axes.plot([x for x, _ in line], [y for _, y in line], color="tab:green", zorder=1, label="beaten by no other")
        if NONE in rows:
            axes.axvline(leak_of(rows[NONE])["mean"], color="grey", linestyle=":", label="nothing shown")
        for place, row in enumerate(sorted(points, key=lambda row: points[row])):
            about = {"color": "tab:red", "label": "in the paper"} if row in PAPER else {"color": "tab:blue"}
            axes.scatter(*points[row], zorder=2, **about)
            beside, end = ((5, 2), "left") if place % 2 else ((-5, -7), "right")
            axes.annotate(row, points[row], fontsize=6, ha=end, xytext=beside, textcoords="offset points")
        axes.margins(x=0.2, y=0.15)
        axes.legend(*_once(axes), fontsize=7, loc="best")
        axes.set(title=name, xlabel=leak, ylabel="insertion less deletion AUC")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def leaks(rows: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """For each explanation that is a map: the fidelity after few queries, and its use."""
    told = {row: facts for row, facts in rows.items() if facts["useful"]}
    return {row: (leak_of(facts)["mean"], facts["useful"]["gap"]["median"]) for row, facts in told.items()}


def leak_of(facts: dict[str, Any]) -> dict[str, Any]:
    """The fidelity after `FEWEST` queries, over seeds; read back from JSON its keys are text."""
    fidelity = facts["fidelity"]
    found: dict[str, Any] = fidelity.get(FEWEST) or fidelity[str(FEWEST)]
    return found


def _once(axes: Any) -> tuple[list[Any], list[str]]:
    """What the legend shows: each name once."""
    named = {name: handle for handle, name in zip(*axes.get_legend_handles_labels(), strict=True)}
    return list(named.values()), list(named)
