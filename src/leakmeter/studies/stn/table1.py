"""Table 1 of STN: certified accuracy at l2 radius 1.58 and natural accuracy on MNIST, with sound confidence."""

from __future__ import annotations

from functools import partial
from typing import Any

from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import Row, by_group
from leakmeter.studies.stn._networks import ALPHA, RECIPE, SIGMAS, certified_row, measured, radius_row

RADIUS = 1.58
RADII = (0.0, 0.5, 1.0, 1.5, RADIUS)
VOTES = {0.5: 100_000, 0.7: 10_000, 1.0: 10_000}
"""At sigma 0.5 the Rényi bound reaches the radius only beyond 70,000 votes that all agree."""
STN, GOAL = 0.690, 1.55
"""The paper's certified accuracy, and the average radius aimed at with sigma 0.5."""
WIDE = "lenet:12"
"""Twice as wide: what the mean radius at sigma 0.5 gains from capacity."""
PAPER = [
    {"model": "Wong et al. (2018), single", "radius": RADIUS, "certified": 0.435, "natural": 0.882},
    {"model": "Wong et al. (2018), cascade", "radius": RADIUS, "certified": 0.746, "natural": 0.814},
    {
        "model": "STN",
        "radius": RADIUS,
        "certified": STN,
        "natural": 0.989,
        "note": "100 votes that also chose the class, Rényi bound, and a code that took 95 % for the error",
    },
]


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `stn-table1.json` and `.md`."""
    count = 50 if settings.quick else 1000
    about = {"model": "lenet", "recipe": RECIPE.model_dump(), "alpha": ALPHA, "images": count, "paper": PAPER}
    record = settings.record("stn-table1", **about)
    for number in settings.numbers:
        for sigma in SIGMAS:
            n = 500 if settings.quick else VOTES[sigma]
            measure = partial(measured, settings, "stability", sigma, count=count, n=n, radii=RADII, seed=number)
            record.cell(f"sigma{sigma:g}/seed{number}", measure)
        if not settings.quick:
            measure = partial(measured, settings, "stability", 0.5, count=count, n=VOTES[0.5], radii=RADII, seed=number)
            record.cell(f"{WIDE}, bfloat16/sigma0.5/seed{number}", partial(measure, model=WIDE, bfloat16=True))
    found = record.write()
    (settings.out / "stn-table1.md").write_text(_table(found))
    return found


def rows(found: dict[str, Any]) -> list[Row]:
    """Certified accuracy at the table's radius under both bounds, and the average radius."""
    told = []
    for name, cells in by_group(found["cells"]).items():
        told += [certified_row(name, cells, RADIUS, bound, paper=STN) for bound in ("tight", "renyi")]
        told.append(radius_row(name, cells, GOAL if "sigma0.5" in name else None))
    return told


def _table(found: dict[str, Any]) -> str:
    """The cells as a table, the paper's below."""
    lines = [
        f"`{found['command']}`, certified accuracy at radius {RADIUS} (and, in brackets, what holds of these images "
        "with probability 0.999)",
        "",
        "| model | votes | tight | Rényi | PixelDP | natural: network | natural: smoothed | mean radius (tight) |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for key, cell in found["cells"].items():
        sure = []
        for bound in ("tight", "renyi", "pixeldp"):
            at = cell["bounds"][bound]["certified"][-1]
            sure.append(f"{at['accuracy']:.1%} ({at['sure']:.1%})")
        natural = f"{cell['natural_base']:.2%} | {cell['natural_smoothed']:.1%}"
        mean = cell["bounds"]["tight"]["average_radius"]
        lines.append(f"| stability, {key} | {cell['n']:,} | {' | '.join(sure)} | {natural} | {mean:.3f} |")
    lines += [f"| {row['model']} (paper) | | | {row['certified']:.1%} | | {row['natural']:.1%} | | |" for row in PAPER]
    return "\n".join(lines) + "\n"
