"""Figure 3 of STN: the choice of sigma, by empirical accuracy under white-box attack on MNIST."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from leakmeter.progress import SILENT, Progress
from leakmeter.studies.record import Record
from leakmeter.studies.stn import RECIPE, SIGMAS, images, smoothed
from leakmeter.studies.stn_attacks import SIZES, Defended, curve, draw


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
    """Writes `stn-fig3.json` and `.png` into `out`. Sigma 0 is a network trained and used without noise."""
    count, steps = (50, 5) if quick else (500, 20)
    command = f"leakmeter study stn-fig3 --seed {seed} --seeds {seeds}{' --quick' if quick else ''}"
    about = {"model": "lenet", "recipe": RECIPE.model_dump(), "images": count, "steps": steps}
    record = Record(Path(out), "stn-fig3", command, about)
    x, y = images(count, data_dir)
    lines = {}
    for number in range(seed, seed + seeds):
        for sigma in (0.0, *SIGMAS):
            technique = "stability" if sigma else "plain"
            network = smoothed(technique, sigma, seed=number, quick=quick, data_dir=data_dir, progress=progress)
            defense = Defended(network.to(device), sigma)
            for norm, sizes in SIZES.items():
                key = f"sigma {sigma:g}, {norm}/seed{number}"
                measure = partial(curve, defense, defense, x, y, norm, sizes, seed=number, steps=steps)
                lines[key] = record.cell(key, partial(measure, progress=progress))
    found = record.write()
    draw({key: line for key, line in lines.items() if key.endswith(f"seed{seed}")}, Path(out) / "stn-fig3.png")
    return found
