"""Image makers against drawing by distance fields, one picture of distances per point of the curve.

    python bench/makers.py [--images 2048]

Prints images a second on all threads torch has, writes results/bench/makers.json.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch

from leakmeter.extraction.makers import MAKERS, draw

SHAPE = (1, 28, 28)


def naive_strokes(n: int, generator: torch.Generator) -> torch.Tensor:
    """Strokes by the distance of every pixel to every point of every curve."""
    pixels = torch.arange(28.0)
    t = torch.linspace(0, 1, 24)
    basis = torch.stack([(1 - t) ** 2, 2 * t * (1 - t), t**2])
    picture = torch.zeros(n, 28, 28)
    for stroke in range(5):
        control = torch.rand(n, 3, 2, generator=generator) * 25 + 1.4
        curve = basis.T @ control
        dx = curve[:, :, 0, None, None] - pixels
        dy = curve[:, :, 1, None, None] - pixels[:, None]
        distance = (dx.square() + dy.square()).amin(1).sqrt()
        pen = torch.rand(n, 1, 1, generator=generator) * 1.6 + 0.6
        drawn = (torch.rand(n, 1, 1, generator=generator) < (1.0 if stroke == 0 else 0.5)).float()
        picture = torch.maximum(picture, drawn * torch.sigmoid((pen - distance) * 3))
    return picture[:, None]


def rate(make: object, images: int) -> float:
    """Images a second, the best of three after one warm-up."""
    make(256)  # type: ignore[operator]
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        make(images)  # type: ignore[operator]
        seconds.append(time.perf_counter() - start)
    return images / min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=2048)
    images = parser.parse_args().images
    generator = torch.Generator().manual_seed(0)
    baseline = rate(lambda n: naive_strokes(n, generator), images)
    rates = {name: rate(lambda n, name=name: draw({name: 1}, n, SHAPE, generator), images) for name in MAKERS}
    print(f"threads {torch.get_num_threads()}; distance-field strokes: {baseline:,.0f} images/s")
    for name, value in rates.items():
        print(f"{name:12s} {value:10,.0f} images/s   {value / baseline:6.1f} x")
    record = {
        "command": f"python bench/makers.py --images {images}",
        "threads": torch.get_num_threads(),
        "shape": SHAPE,
        "distance_field_strokes_per_second": baseline,
        "makers_per_second": rates,
        "ratio_of_strokes": rates["strokes"] / baseline,
        "target_per_second": 5000,
    }
    place = Path("results/bench/makers.json")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
