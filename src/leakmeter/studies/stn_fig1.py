"""Figure 1 of STN: certified accuracy against radius on MNIST, for several sigma, bounds and ways of training."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from leakmeter.progress import SILENT, Progress
from leakmeter.studies.record import Record
from leakmeter.studies.stn import ALPHA, RECIPE, clean_accuracy, describe, images, majority_accuracy, smoothed, votes
from leakmeter.studies.stn_attacks import Defended, curve

ARMS = [("stability", 0.5), ("stability", 0.7), ("stability", 1.0), ("gaussian", 0.7), ("plain", 0.7)]
RADII = [round(float(radius), 2) for radius in np.arange(0, 3.01, 0.1)]
PAPER = [{"sigma": 0.7, "radius": 1.4, "certified": 0.51, "bound": "renyi", "where": "section 6.1"}]


def main(
    out: Path,
    *,
    seed: int = 0,
    seeds: int = 1,
    quick: bool = False,
    data_dir: Path | None = None,
    device: str = "cpu",
    progress: Progress = SILENT,
) -> dict[str, Any]:
    """Writes `stn-fig1.json` and `.png` into `out`.

    "Without stability training" is drawn twice, since the paper does not say which it means: trained on noisy inputs,
    and trained on clean ones.
    """
    count, n = (50, 300) if quick else (1000, 10_000)
    command = f"leakmeter study stn-fig1 --seed {seed} --seeds {seeds}{' --quick' if quick else ''}"
    about = {"model": "lenet", "recipe": RECIPE.model_dump(), "alpha": ALPHA, "images": count, "paper": PAPER}
    record = Record(Path(out), "stn-fig1", command, about)
    x, y = images(count, data_dir)
    for number in range(seed, seed + seeds):
        fit = partial(smoothed, seed=number, quick=quick, data_dir=data_dir, progress=progress)

        def certified(technique: str, sigma: float, number: int = number, fit: Any = fit) -> dict[str, Any]:
            network = fit(technique, sigma).to(device)
            certificate = votes(network, x, sigma, n, seed=number, progress=progress)
            natural = {
                "natural_base": clean_accuracy(network, data_dir),
                "natural_smoothed": majority_accuracy(certificate, y),
            }
            return {**describe(certificate, y, RADII), **natural}

        def attacked(number: int = number, fit: Any = fit) -> list[dict[str, Any]]:
            trades = Defended(fit("trades").to(device))
            return curve(trades, trades, x, y, "l2", RADII[5::5], seed=number, steps=40, progress=progress)

        for technique, sigma in ARMS:
            record.cell(f"{technique}/sigma{sigma:g}/seed{number}", partial(certified, technique, sigma))
        record.cell(f"trades, PGD/seed{number}", attacked)
    found = record.write()
    _draw(found, seed, Path(out) / "stn-fig1.png")
    return found


def _draw(found: dict[str, Any], seed: int, path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    styles = {"tight": "-", "renyi": "--", "pixeldp": ":"}
    for number, (technique, sigma) in enumerate(ARMS):
        cell = found["cells"][f"{technique}/sigma{sigma:g}/seed{seed}"]
        for bound, style in styles.items():
            points = cell["bounds"][bound]["certified"]
            label = f"{technique} σ={sigma:g}, {bound}" if bound == "tight" or number == 1 else None
            axes = left if technique == "stability" else right
            radii, accuracy = [p["radius"] for p in points], [p["accuracy"] for p in points]
            axes.plot(radii, accuracy, style, color=f"C{number}", label=label)
            if (technique, sigma) == ("stability", 0.7):
                right.plot(radii, accuracy, style, color=f"C{number}", label=label)
    points = found["cells"][f"trades, PGD/seed{seed}"]
    right.plot([p["eps"] for p in points], [p["accuracy"] for p in points], "k-.", label="TRADES, PGD (empirical)")
    left.set(title="sigma and bound", xlabel="l2 radius", ylabel="certified accuracy")
    right.set(title="training, at sigma 0.7", xlabel="l2 radius")
    left.legend(fontsize="small")
    right.legend(fontsize="small")
    figure.savefig(path, dpi=150)
