"""Image makers against drawing by distance fields, one picture of distances per point of the curve.

    python bench/makers.py [--seconds 1] [--images 1024]

Prints images a second on one core and on two (a process of one thread each, at the same time), writes
results/bench/makers.json.
"""

from __future__ import annotations

import argparse
import time
from multiprocessing import get_context

import torch
from _keep import keep

from leakmeter.extraction.makers import MAKERS, draw

SHAPES = {"1x28x28": (1, 28, 28), "3x32x32": (3, 32, 32)}
BASELINE = "strokes by distance field"


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


def make(name: str, n: int, shape: tuple[int, int, int], generator: torch.Generator) -> torch.Tensor:
    """`n` pictures of one maker."""
    return naive_strokes(n, generator) if name == BASELINE else draw({name: 1}, n, shape, generator)


def rate(name: str, shape: tuple[int, int, int], images: int, seconds: float) -> float:
    """Images a second of one thread over `seconds`, after a warm-up."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    make(name, images, shape, generator)
    drawn, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        make(name, images, shape, generator)
        drawn += images
    return drawn / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--images", type=int, default=1024)
    options = parser.parse_args()
    results: dict[str, dict[str, dict[str, float]]] = {}
    with get_context("spawn").Pool(2) as pool:
        for label, shape in SHAPES.items():
            results[label] = {}
            for name in ([BASELINE] if shape[0] == 1 else []) + list(MAKERS):
                work = (name, shape, options.images, options.seconds)
                one, two = pool.apply(rate, work), sum(pool.starmap(rate, [work, work], chunksize=1))
                results[label][name] = {"one_core": one, "two_cores": two}
                print(f"{label} {name:26s} {one:10,.0f} images/s on one core {two:10,.0f} on two", flush=True)
    grey = results["1x28x28"]
    record = {
        "command": f"python bench/makers.py --seconds {options.seconds} --images {options.images}",
        "images_per_second": results,
        "ratio_of_strokes": grey["strokes"]["one_core"] / grey[BASELINE]["one_core"],
        "target_two_cores_1x28x28": 5000,
        "met": all(rates["two_cores"] >= 5000 for name, rates in grey.items() if name != BASELINE),
    }
    keep("makers", record)


if __name__ == "__main__":
    main()
