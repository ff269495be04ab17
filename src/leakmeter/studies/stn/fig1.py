"""Figure 1 of STN: certified accuracy against radius on MNIST, for several sigma, bounds and ways of training."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import Row, by_group
from leakmeter.studies.stn._attacks import Defended, curve
from leakmeter.studies.stn._networks import ALPHA, RECIPE, certified_row, images, measured, radius_row, smoothed
from leakmeter.studies.stn.table1 import VOTES

ARMS = [("stability", 0.5), ("stability", 0.7), ("stability", 1.0), ("gaussian", 0.7), ("plain", 0.7)]
RADII = [round(float(radius), 2) for radius in np.arange(0, 3.01, 0.1)]
PAPER: dict[str, Any] = {"sigma": 0.7, "radius": 1.4, "certified": 0.51, "bound": "renyi", "where": "section 6.1"}


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `stn-fig1.json` and `.png` into `out`.

    "Without stability training" is drawn twice, since the paper does not say which it means: trained on noisy inputs,
    and trained on clean ones.
    """
    count = 50 if settings.quick else 1000
    about = {"model": "lenet", "recipe": RECIPE.model_dump(), "alpha": ALPHA, "images": count, "paper": PAPER}
    record = settings.record("stn-fig1", **about)
    for number in settings.numbers:
        for technique, sigma in ARMS:
            n = 300 if settings.quick else VOTES[sigma]
            record.cell(
                f"{technique}/sigma{sigma:g}/seed{number}",
                partial(measured, settings, technique, sigma, count=count, n=n, radii=RADII, seed=number),
            )
        record.cell(f"trades, PGD/seed{number}", partial(_attacked, settings, count, number))
    found = record.write()
    _draw(found, settings.seed, settings.out / "stn-fig1.png")
    return found


def rows(found: dict[str, Any]) -> list[Row]:
    """Certified accuracy at the paper's radius, and the average radius, of every way of training."""
    told = []
    for name, cells in by_group(found["cells"]).items():
        if "sigma" in name:
            paper = PAPER["certified"] if name == "stability/sigma0.7" else None
            told += [certified_row(name, cells, PAPER["radius"], "renyi", paper=paper), radius_row(name, cells)]
    return told


def _attacked(settings: StudyOptions, count: int, seed: int) -> list[dict[str, Any]]:
    x, y = images(settings, count)
    trades = Defended(smoothed(settings, "trades", seed=seed))
    return curve(trades, trades, x, y, "l2", RADII[5::5], seed=seed, steps=40, progress=settings.progress)


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
