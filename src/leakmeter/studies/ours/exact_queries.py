"""Gradient queries against the number of hidden units: the paper's algorithm, ours, and the information limit."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import nn

from leakmeter.errors import Inconclusive
from leakmeter.extraction.base import extract
from leakmeter.extraction.findings import Findings
from leakmeter.oracle.oracle import Oracle
from leakmeter.seeds import stream
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import Row, by_group, of_median
from leakmeter.victims.load import load_victim

D = 784
UNITS = (16, 64, 256, 1024, 4096)
PAPER_UNITS = (16, 64, 256, 1024)
"""The paper's search asks one by one, 40 to 60 times a unit; and beyond d = 784 its rows cannot be independent."""
OUTPUTS = (1, 10)


def random_network(
    h: int, d: int = D, outputs: int = 1, *, seed: int, dtype: torch.dtype = torch.float64, biases: bool = True
) -> nn.Sequential:
    """Rows of length one; weights, and biases if any, standard normal."""
    generator = stream(seed, "exact", "victim")
    net = nn.Sequential(nn.Linear(d, h), nn.ReLU(), nn.Linear(h, outputs)).to(dtype)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
            if parameter.dim() == 1 and not biases:
                parameter.zero_()
        net[0].weight /= net[0].weight.norm(dim=1, keepdim=True)  # type: ignore[operator]
    return net


def run_exact(
    net: nn.Module, view: str, *, seed: int, name: str = "exact", budget: int | None = None, **options: Any
) -> dict[str, Any]:
    """One reconstruction in open space: what it cost and how exact it is, or how it failed."""
    features = next(module.in_features for module in net.modules() if isinstance(module, nn.Linear))
    victim = load_victim(net, input_shape=(features,), low=None, high=None, outputs="logits")
    oracle = Oracle(victim, view, budget)
    try:
        copy = extract(name, oracle, seed=seed, **options)
    except Inconclusive as failure:
        return {"queries": oracle.ledger.spent(), "failure": str(failure)}
    spent = {"queries": oracle.ledger.spent(), "seconds": round(copy.seconds, 2)}
    return {**spent, **copy.notes, **exactness(copy.findings)}


def exactness(findings: Findings) -> dict[str, Any]:
    """The certificate with what the attack says of itself, as results record them."""
    assert findings.certificate is not None
    said = findings.model_dump(include={"units", "complete", "missing"})
    return {"certificate": findings.certificate.model_dump() | said}


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `exact-queries.json` and `.png` into `out`. All methods see the same victims, without biases."""
    record = settings.record("exact-queries", d=D, seeds=[*settings.numbers])
    runs = [("secant", outputs, h) for outputs in OUTPUTS for h in UNITS] + [("paper", 1, h) for h in PAPER_UNITS]
    runs = [run for run in runs if not settings.quick or run[2] <= 64]
    means: dict[str, dict[int, float]] = {}
    with settings.progress.task("exact reconstruction", len(runs) * settings.seeds) as task:
        for method, outputs, h in runs:
            cells = []
            for s in range(settings.seed, settings.seed + (1 if method == "paper" else settings.seeds)):
                net = random_network(h, outputs=outputs, seed=s, biases=False)
                options: dict[str, Any] = {"method": "paper", "h": h} if method == "paper" else {}
                compute = partial(run_exact, net, "logits+gradient", seed=s, **options)
                cells.append(record.cell(f"{method}, {outputs} outputs, h={h}, seed {s}", compute))
                task.advance()
            label = "paper" if method == "paper" else f"ours, {outputs} output{'s' if outputs > 1 else ''}"
            means.setdefault(label, {})[h] = fmean(cell["queries"] for cell in cells) / h
    content = record.write(queries_per_unit=means)
    _draw(means, settings.out / "exact-queries.png")
    return content


def _draw(means: dict[str, dict[int, float]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for label, points in means.items():
        axes.loglog([*points], [*points.values()], "o-", label=label)
    units = sorted({h for points in means.values() for h in points})
    axes.loglog(units, [(h + 1) / h for h in units], "k--", label="limit (h + 1) / h")
    axes.set(xlabel="hidden units h", ylabel="gradient queries per unit", title=f"exact reconstruction, d = {D}")
    axes.legend()
    figure.savefig(path, dpi=150)


def rows(found: dict[str, Any]) -> list[Row]:
    """Queries a unit of both methods at every width; the paper states an order only."""
    told = []
    for name, cells in by_group(found["cells"], ", seed").items():
        h = int(name.partition("h=")[2])
        exact = sum(cell.get("certificate", {}).get("exact", False) for cell in cells)
        values = [cell["queries"] / h for cell in cells]
        told.append(of_median(f"{name}: queries a unit", values, f"{exact} of {len(cells)} exact", paper="O(log h)"))
    return told
