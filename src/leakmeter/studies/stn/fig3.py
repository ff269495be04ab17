"""Figure 3 of STN: the choice of sigma, by empirical accuracy under white-box attack on MNIST."""

from __future__ import annotations

from functools import partial
from typing import Any

from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import Row
from leakmeter.studies.stn._attacks import SIZES, Defended, attack_rows, curve, draw
from leakmeter.studies.stn._networks import RECIPE, SIGMAS, images, smoothed


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `stn-fig3.json` and `.png` into `out`. Sigma 0 is a network trained and used without noise."""
    count, steps = (50, 5) if settings.quick else (500, 20)
    about = {"model": "lenet", "recipe": RECIPE.model_dump(), "images": count, "steps": steps}
    record = settings.record("stn-fig3", **about)
    x, y = images(settings, count)
    lines = {}
    for number in settings.numbers:
        for sigma in (0.0, *SIGMAS):
            technique = "stability" if sigma else "plain"
            network = smoothed(settings, technique, sigma, seed=number)
            defense = Defended(network, sigma)
            for norm, sizes in SIZES.items():
                key = f"sigma {sigma:g}, {norm}/seed{number}"
                measure = partial(curve, defense, defense, x, y, norm, sizes, seed=number, steps=steps)
                lines[key] = record.cell(key, partial(measure, progress=settings.progress))
    found = record.write()
    draw(
        {key: line for key, line in lines.items() if key.endswith(f"seed{settings.seed}")},
        settings.out / "stn-fig3.png",
    )
    return found


def rows(found: dict[str, Any]) -> list[Row]:
    """What attacks leave."""
    return attack_rows(found["cells"], {})
