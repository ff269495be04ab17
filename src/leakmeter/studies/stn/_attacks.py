"""Empirical accuracy of smoothed and ordinary networks under attack, for figures 1 to 3 of STN (section 6.2).

The attack on l2 is projected gradient ascent on the margin of Carlini and Wagner, which is what the authors' code runs
under their name; on linf it is PGD on the cross-entropy. Against a smoothed network every gradient is a mean over
fresh noise, and the adversary knows sigma.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from leakmeter.certificates.sampling import Sampling, collect
from leakmeter.evaluation.intervals import exact
from leakmeter.evasion.base import evade
from leakmeter.progress import SILENT, Progress
from leakmeter.studies.rows import Row, by_group, share

Norm = Literal["linf", "l2"]
SIZES: dict[Norm, tuple[float, ...]] = {
    "l2": (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0),
    "linf": (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4),
}
LOSSES = {"l2": "margin", "linf": "ce"}


class Noisy(nn.Module):
    """A network that sees its input under fresh noise each time it is asked."""

    def __init__(self, network: nn.Module, sigma: float) -> None:
        super().__init__()
        self.network, self.sigma = network, sigma

    def forward(self, x: Tensor) -> Tensor:
        """The logits at x + noise."""
        out: Tensor = self.network(x + self.sigma * torch.randn_like(x))
        return out


@dataclass(frozen=True, eq=False)
class Defended:
    """A network as it answers: smoothed by `sigma` with the majority of `votes`, or as it is at sigma 0."""

    network: nn.Module
    sigma: float = 0.0
    votes: int = 100

    def answers(self, x: Tensor, *, seed: int) -> Tensor:
        """The class of every input."""
        if self.sigma:
            return collect(self.network, x, Sampling(self.sigma, self.votes, seed=seed)).counts.argmax(1)
        with torch.inference_mode():
            labels: Tensor = self.network(x).argmax(1)
        return labels

    def exposed(self) -> tuple[nn.Module, int]:
        """What a white-box adversary differentiates, and over how many draws of it he averages."""
        return (Noisy(self.network, self.sigma), 10) if self.sigma else (self.network, 1)

    def attacked(
        self, x: Tensor, y: Tensor, norm: Norm, eps: float, *, seed: int, steps: int = 20, progress: Progress = SILENT
    ) -> Tensor:
        """Inputs within `eps` chosen against this very defense."""
        model, eot = self.exposed()
        evasion = evade(
            "pgd",
            model,
            x,
            y,
            norm=norm,
            eps=eps,
            seed=seed,
            eot=eot,
            progress=progress,
            steps=steps,
            loss=LOSSES[norm],
            early_stop=False,
        )
        return evasion.examples


def curve(
    defense: Defended,
    attacker: Defended,
    x: Tensor,
    y: Tensor,
    norm: Norm,
    sizes: Sequence[float],
    *,
    seed: int,
    steps: int = 20,
    progress: Progress = SILENT,
) -> list[dict[str, Any]]:
    """The defense's accuracy on what was made against `attacker` (itself: white box), for every size."""
    points = []
    for eps in (0.0, *sizes):
        moved = attacker.attacked(x, y, norm, eps, seed=seed, steps=steps, progress=progress) if eps else x
        right = int((defense.answers(moved, seed=seed) == y).sum())
        points.append({"eps": eps, "accuracy": right / len(y), "interval": exact(right, len(y)).model_dump()})
    return points


def draw(lines: dict[str, list[dict[str, Any]]], path: Path) -> None:
    """Accuracy against size, one panel a norm; transferred attacks dashed."""
    from matplotlib.figure import Figure

    norms = [norm for norm in SIZES if any(norm in key for key in lines)]
    figure = Figure(figsize=(5 * len(norms), 3.8), layout="constrained")
    for axes, norm in zip(figure.subplots(1, len(norms), sharey=True, squeeze=False)[0], norms, strict=True):
        for key, points in lines.items():
            name = key.partition("/")[0]
            if name.endswith(norm):
                style = "--" if "transfer" in name else "-"
                axes.plot([p["eps"] for p in points], [p["accuracy"] for p in points], style, label=name)
        axes.set(xlabel=f"{norm} size of the attack", ylabel="accuracy", ylim=(0, 1))
        axes.legend(fontsize="small")
    figure.savefig(path, dpi=150)


def attack_rows(cells: dict[str, list[dict[str, Any]]], paper: dict[str, dict[float, float]]) -> list[Row]:
    """The accuracy left at the middle and the largest size of every line."""
    rows = []
    for name, lines in by_group(cells).items():
        for place in (len(lines[0]) // 2, -1):
            points = [line[place] for line in lines]
            eps, n = points[0]["eps"], points[0]["interval"]["n"]
            what, values = f"{name}: accuracy at {eps:g}", [point["accuracy"] for point in points]
            rows.append(share(what, values, n, f"{n} images", paper=paper.get(name, {}).get(eps)))
    return rows
