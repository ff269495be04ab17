"""Figure 6 of STN (appendix D.2): the Boundary attack, which needs no gradient, beside PGD, on MNIST in l2."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from torch import Tensor

from leakmeter.evaluation.intervals import exact
from leakmeter.evasion.base import evade
from leakmeter.progress import SILENT, Progress
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.record import Record
from leakmeter.studies.rows import Row
from leakmeter.studies.stn._attacks import SIZES, Defended, attack_rows, curve, draw
from leakmeter.studies.stn._networks import images, smoothed

ARMS = [("stability", 0.7), ("plain", 0.0)]


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `stn-boundary.json` and `.png` into `out`. The ordinary network shows that the attack works at all."""
    count, steps = (20, 50) if settings.quick else (100, 2000)
    record = settings.record("stn-boundary", model="lenet", images=count, steps=steps)
    return attacked(settings, record, ARMS, "mnist", count=count, steps=steps, sizes=SIZES["l2"])


def attacked(
    settings: StudyOptions,
    record: Record,
    arms: Sequence[tuple[str, float]],
    data: str,
    *,
    count: int,
    steps: int,
    sizes: Sequence[float],
) -> dict[str, Any]:
    """Every network under both attacks, measured and drawn."""
    x, y = images(settings, count, data)
    lines = {}
    for number in settings.numbers:
        for technique, sigma in arms:
            defense = Defended(smoothed(settings, technique, sigma, seed=number, data=data), sigma)
            name, shown = f"{technique}, sigma {sigma:g}", settings.progress
            walk = partial(walked, defense, x, y, steps, sizes, seed=number, progress=shown)
            climb = partial(curve, defense, defense, x, y, "l2", sizes, seed=number, progress=shown)
            for attack, measure in (("Boundary", walk), ("PGD", climb)):
                key = f"{name}, {attack}, l2/seed{number}"
                lines[key] = record.cell(key, measure)
    first = {key: line for key, line in lines.items() if key.endswith(f"seed{settings.seed}")}
    draw(first, record.path.with_suffix(".png"))
    return record.write()


def walked(
    defense: Defended,
    x: Tensor,
    y: Tensor,
    steps: int,
    sizes: Sequence[float] = SIZES["l2"],
    *,
    seed: int,
    progress: Progress = SILENT,
) -> list[dict[str, Any]]:
    """The accuracy left at each size: an example counts as broken where the defense, asked afresh, is wrong on it.

    A randomised classifier errs now and then by chance, and a walk by labels keeps such luck; hence the second look.
    """
    model, eot = defense.exposed()
    evasion = evade("boundary", model, x, y, seed=seed, eot=eot, progress=progress, steps=steps)
    right = defense.answers(x, seed=seed) == y
    broken = defense.answers(evasion.examples, seed=seed) != y
    points = []
    for eps in (0.0, *sizes):
        left = int((right & ~(broken & (evasion.distance <= eps))).sum())
        points.append({"eps": eps, "accuracy": left / len(y), "interval": exact(left, len(y)).model_dump()})
    return points


def rows(found: dict[str, Any]) -> list[Row]:
    """What attacks leave."""
    return attack_rows(found["cells"], {})
