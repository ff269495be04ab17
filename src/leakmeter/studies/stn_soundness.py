"""Does any attack flip a smoothed prediction inside its certified radius? Counted on MNIST, where none may."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch

from leakmeter.certificates import Certificate, predict
from leakmeter.progress import SILENT, Progress
from leakmeter.studies.record import Record
from leakmeter.studies.stn import ALPHA, images, smoothed, votes
from leakmeter.studies.stn_attacks import Defended

SIGMA = 0.5
REACH = (0.99, 1.5, 3.0)
"""How far the attack may go, in certified radii; beyond 1 it must start to succeed, or it would prove nothing."""


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
    """Writes `stn-soundness.json` into `out`."""
    count, n = (20, 200) if quick else (600, 1000)
    command = f"leakmeter study stn-soundness --seed {seed} --seeds {seeds}{' --quick' if quick else ''}"
    record = Record(Path(out), "stn-soundness", command, {"sigma": SIGMA, "alpha": ALPHA, "n": n})
    x, _ = images(count, data_dir)
    for number in range(seed, seed + seeds):
        network = smoothed("stability", SIGMA, seed=number, quick=quick, data_dir=data_dir, progress=progress)
        network = network.to(device)
        certificate = votes(network, x, SIGMA, n, seed=number, progress=progress)
        for reach in REACH:
            record.cell(f"{reach} R/seed{number}", partial(flips, network, x, certificate, reach, seed=number))
    return record.write()


def flips(
    network: torch.nn.Module, x: torch.Tensor, certificate: Certificate, reach: float, *, seed: int, steps: int = 20
) -> dict[str, Any]:
    """Attacks every certified input within `reach` of its own radius, and asks the smoothed classifier again."""
    defense = Defended(network, certificate.sigma)
    sure = (certificate.labels >= 0).nonzero().flatten()
    x, labels, radii = x[sure], certificate.labels[sure], certificate.radii[sure]
    moved = x.clone()
    for radius in sorted(set(radii.tolist())):
        rows = radii == radius
        moved[rows] = defense.attacked(x[rows], labels[rows], "l2", reach * radius, seed=seed, steps=steps)
    after = predict(network, moved, sigma=certificate.sigma, n=1000, alpha=certificate.alpha, seed=seed)
    return {
        "attacked": len(sure),
        "flipped": int(((after >= 0) & (after != labels)).sum()),
        "undecided": int((after < 0).sum()),
        "mean_distance_in_radii": float(((moved - x).flatten(1).norm(dim=1) / radii).mean()),
    }
