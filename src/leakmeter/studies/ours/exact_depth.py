"""Queries a hidden unit against depth and width: is the paper's open question answered by a flat line?"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch
from torch import nn

from leakmeter.seeds import stream
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.ours.exact_queries import run_exact
from leakmeter.studies.rows import Row, by_group, of_median

D, OUTPUTS = 128, 10
DEPTHS = (1, 2, 3, 4, 5, 6)
WIDTHS = (16, 32)
MOST = 60
"""Queries a unit after which a run ends, with what it has."""
Dot = tuple[int, float, bool]
"""A run: hidden layers, queries a hidden unit, and whether its copy is exact."""


def deep_network(widths: tuple[int, ...], *, seed: int, dtype: torch.dtype = torch.float64) -> nn.Sequential:
    """Fully connected with ReLUs between, `widths` from the input to the outputs; normal weights, as in He et al."""
    generator = stream(seed, "exact", "deep victim")
    modules: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layer = nn.utils.skip_init(nn.Linear, inputs, outputs, dtype=torch.float64)  # type: ignore[no-untyped-call]
        with torch.no_grad():
            size = (2 / inputs) ** 0.5
            layer.weight.copy_(size * torch.randn(outputs, inputs, generator=generator, dtype=torch.float64))
            layer.bias.copy_(0.3 * torch.randn(outputs, generator=generator, dtype=torch.float64))
        modules += [layer, nn.ReLU()]
    return nn.Sequential(*modules[:-1]).to(dtype)


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `exact-depth.json` and `.png` into `out`: means over seeds, and the share of runs that were exact.

    Small depths first, and both files anew after each shape: the largest networks take most of the time.
    """
    record = settings.record("exact-depth", d=D, outputs=OUTPUTS, seeds=[*settings.numbers])
    runs = [(w, n) for n in DEPTHS for w in WIDTHS if not settings.quick or (w == WIDTHS[0] and n <= 2)]
    means: dict[str, dict[int, dict[str, float]]] = {}
    dots: dict[str, list[Dot]] = {}
    with settings.progress.task("exact reconstruction", len(runs) * settings.seeds) as task:
        for width, depth in runs:
            cells = []
            for seed in settings.numbers:
                net = deep_network((D, *[width] * depth, OUTPUTS), seed=seed)
                compute = partial(run_exact, net, "logits+gradient", seed=seed, budget=MOST * width * depth)
                cells.append(record.cell(f"width {width}, depth {depth}, seed {seed}", compute))
                task.advance()
            queries = fmean(cell["queries"] for cell in cells) / (width * depth)
            exact = fmean(float(cell["certificate"]["exact"]) for cell in cells)
            means.setdefault(f"width {width}", {})[depth] = {"queries a unit": queries, "exact": exact}
            dots.setdefault(f"width {width}", []).extend(
                (depth, cell["queries"] / (width * depth), cell["certificate"]["exact"]) for cell in cells
            )
            record.write(means=means)
            _draw(dots, settings.out / "exact-depth.png")
    return record.content


def _draw(dots: dict[str, list[Dot]], path: Path) -> None:
    """A dot a run, lines through the medians of those that were exact; a cross where the budget ended first."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for colour, (label, runs) in enumerate(dots.items()):
        exact: dict[int, list[float]] = {}
        for depth, queries, right in runs:
            if right:
                exact.setdefault(depth, []).append(queries)
            axes.plot(depth, queries, "." if right else "x", color=f"C{colour}")
        axes.plot([*exact], [median(found) for found in exact.values()], "-", color=f"C{colour}", label=label)
    axes.axhline(MOST, color="grey", linewidth=0.8, linestyle=":", label="all that a run may ask; x: not exact")
    axes.set(xlabel="hidden layers", ylabel="gradient queries per hidden unit", title=f"d = {D}, {OUTPUTS} outputs")
    axes.set_ylim(bottom=0)
    axes.set_xticks(DEPTHS)
    axes.legend(loc="center right")
    figure.savefig(path, dpi=150)


def rows(found: dict[str, Any]) -> list[Row]:
    """Queries a unit of every shape; a flat line would answer the paper's open question."""
    told = []
    for name, cells in by_group(found["cells"], ", seed").items():
        exact = sum(cell["certificate"]["exact"] for cell in cells)
        width, depth = (int(part.split()[1]) for part in name.split(", "))
        values = [cell["queries"] / (width * depth) for cell in cells]
        told.append(of_median(f"{name}: queries a unit", values, f"{exact} of {len(cells)} exact"))
    return told
