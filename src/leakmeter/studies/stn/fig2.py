"""Figure 2 of STN: empirical accuracy of STN and TRADES on MNIST, attacked directly and by way of a Madry network."""

from __future__ import annotations

from functools import partial
from typing import Any

from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import Row
from leakmeter.studies.stn._attacks import SIZES, Defended, attack_rows, curve, draw
from leakmeter.studies.stn._networks import RECIPE, images, smoothed

SIGMA = 0.7
PAPER = {
    "stn, transfer, l2": dict(zip(SIZES["l2"], (0.977, 0.969, 0.953, 0.932, 0.905, 0.865, 0.814, 0.749), strict=True)),
    "stn, transfer, linf": dict(
        zip(SIZES["linf"], (0.974, 0.960, 0.941, 0.904, 0.845, 0.758, 0.646, 0.503), strict=True)
    ),
}
"""From the authors' attacks.txt: examples made against a natural network, not a Madry one."""


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `stn-fig2.json` and `.png` into `out`."""
    count, steps = (50, 5) if settings.quick else (500, 20)
    about = {"model": "lenet", "recipe": RECIPE.model_dump(), "sigma": SIGMA, "images": count, "steps": steps}
    record = settings.record("stn-fig2", **about, paper=PAPER)
    x, y = images(settings, count)
    lines = {}
    for number in settings.numbers:
        fit = partial(smoothed, settings, seed=number)
        networks = {
            "stn": Defended(fit("stability", SIGMA), SIGMA),
            "trades": Defended(fit("trades")),
            "madry": Defended(fit("madry")),
        }
        for norm, sizes in SIZES.items():
            for name in ("stn", "trades"):
                for how, attacker in (("white box", name), ("transfer", "madry")):
                    key = f"{name}, {how}, {norm}/seed{number}"
                    measure = partial(
                        curve, networks[name], networks[attacker], x, y, norm, sizes, seed=number, steps=steps
                    )
                    lines[key] = record.cell(key, partial(measure, progress=settings.progress))
    found = record.write()
    draw(
        {key: line for key, line in lines.items() if key.endswith(f"seed{settings.seed}")},
        settings.out / "stn-fig2.png",
    )
    return found


def rows(found: dict[str, Any]) -> list[Row]:
    """What attacks leave."""
    return attack_rows(found["cells"], PAPER)
