"""What stability training gains over plain Gaussian training (section 6.1 of STN), pair by pair on MNIST.

Both networks of a pair begin with the same weights and see the same images; their average certified radius differs by
the technique, and by luck, which further pairs tell apart.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import Row, by_group, of_median
from leakmeter.studies.stn._networks import ALPHA, certified_row, measured, radius_row
from leakmeter.training.loop import Recipe

SIGMA, FIRST = 0.7, 10_000
RECIPE = Recipe(epochs=6, batch=128, lr=3e-3, schedule="cosine")
RADII = (0.0, 0.7, 1.4, 1.58, 2.1)
AT = 1.4
TECHNIQUES = ("stability", "gaussian")


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `stn-gain.json`."""
    count, n = (20, 300) if settings.quick else (200, 1000)
    about = {"model": "lenet", "recipe": RECIPE.model_dump(), "first": FIRST, "alpha": ALPHA, "images": count}
    record = settings.record("stn-gain", **about, sigma=SIGMA)
    for number in settings.numbers:
        for technique in TECHNIQUES:
            measure = partial(measured, settings, technique, SIGMA, count=count, n=n, radii=RADII, seed=number)
            record.cell(f"{technique}/seed{number}", partial(measure, recipe=RECIPE, first=FIRST))
    return record.content


def rows(found: dict[str, Any]) -> list[Row]:
    """The differences, then both techniques."""
    groups = by_group(found["cells"])
    pairs = list(zip(*(groups.get(technique, []) for technique in TECHNIQUES), strict=False))
    told = []
    for what, value in (("average radius", _radius), (f"certified at {AT:g}, points", _points)):
        gains = [value(stable) - value(plain) for stable, plain in pairs]
        if gains:
            budget = f"sigma {SIGMA:g}, {found['first']:,} training images, {pairs[0][0]['images']} certified"
            name = f"stability less gaussian: {what}"
            told.append(of_median(name, gains, budget, paper="significant", met=_beyond(gains)))
    for name, cells in groups.items():
        told += [certified_row(name, cells, AT, "tight"), radius_row(name, cells)]
    return told


def _beyond(gains: list[float]) -> bool | None:
    """Whether every pair agrees, and on what; None: pairs differ."""
    return True if min(gains) > 0 else False if max(gains) <= 0 else None


def _radius(cell: dict[str, Any]) -> float:
    return float(cell["bounds"]["tight"]["average_radius"])


def _points(cell: dict[str, Any]) -> float:
    return 100 * float(next(p["accuracy"] for p in cell["bounds"]["tight"]["certified"] if p["radius"] == AT))
