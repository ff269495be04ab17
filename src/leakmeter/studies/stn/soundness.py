"""Does any attack flip a smoothed prediction inside its certified radius? Counted on MNIST, where none may."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from leakmeter.certificates import Certificate, predict
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import NONE, Row, by_group
from leakmeter.studies.stn._attacks import Defended
from leakmeter.studies.stn._networks import ALPHA, images, smoothed, votes

SIGMA = 0.5
REACH = (0.99, 1.5, 3.0)
"""How far the attack may go, in certified radii; beyond 1 it must start to succeed, or it would prove nothing."""


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `stn-soundness.json` into `out`."""
    count, n = (20, 200) if settings.quick else (600, 1000)
    record = settings.record("stn-soundness", sigma=SIGMA, alpha=ALPHA, n=n)
    x, _ = images(settings, count)
    for number in settings.numbers:
        network = smoothed(settings, "stability", SIGMA, seed=number)
        certificate = votes(settings, network, x, SIGMA, n, seed=number)
        for reach in REACH:
            record.cell(f"{reach} R/seed{number}", partial(flips, network, x, certificate, reach, seed=number))
    return record.write()


def rows(found: dict[str, Any]) -> list[Row]:
    """How many certified predictions an attack flips, by its reach: within the radius none."""
    told = []
    for name, cells in by_group(found["cells"]).items():
        flipped, attacked = (sum(cell[key] for cell in cells) for key in ("flipped", "attacked"))
        inside = float(name.split()[0]) < 1
        paper, met = ("0", flipped == 0) if inside else (NONE, None)
        told.append(
            Row(f"flipped within {name}", f"{flipped} of {attacked}", f"{found['n']:,} votes", len(cells), paper, met)
        )
    return told


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
