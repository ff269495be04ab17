"""Certification against the plain loop of the published codes, and stopping early against a fixed n.

    LEAKMETER_DATA=... python bench/certify.py [--images 1000] [--n 100000]

Trains LeNet on MNIST by stability training at sigma 0.5 (cached), then measures in this one process, on one thread:
- samples a CPU-second of `certify`, as it comes and with `torch.compile`, and of a loop over inputs with batches of
  1000 that counts with Python, as in locuslab/smoothing;
- samples needed to decide the radius 0.5 with a betting confidence sequence, against n = 100,000 for every input,
  and what either certifies. The fixed votes are those of `leakmeter study stn-table1`, drawn once (an hour) and kept;
- peak memory of the process at n = 1,000, 10,000 and 100,000.

Writes results/bench/certify.json.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch
from _keep import keep

from leakmeter.certificates import certify
from leakmeter.certificates.sampling import Classifier
from leakmeter.data.catalogue import load
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.stn._networks import fused, images, smoothed, votes

SIGMA, ALPHA, RADIUS = 0.5, 0.001, 0.5
SETTINGS = StudyOptions(Path("results"))


def plain_loop(model: Classifier, x: torch.Tensor, n: int, batch: int = 1000) -> None:
    """One input at a time, each batch allocated anew, votes counted one by one."""
    with torch.no_grad():
        for row in x:
            counts, left = np.zeros(10, dtype=int), n
            while left > 0:
                size = min(batch, left)
                left -= size
                copies = row.repeat((size, 1, 1, 1))
                for label in model(copies + torch.randn_like(copies) * SIGMA).argmax(1).numpy():
                    counts[label] += 1


def rate(work: object, samples: int) -> float:
    """Samples a CPU-second, the best of five after one warm-up."""
    seconds = []
    for _ in range(6):
        start = time.process_time()
        work()  # type: ignore[operator]
        seconds.append(time.process_time() - start)
    return samples / min(seconds[1:])


def speed(model: torch.nn.Module, x: torch.Tensor) -> dict[str, float]:
    few, n = x[:10], 2000
    rates = {"plain loop, batch 1000": rate(lambda: plain_loop(model, few, n), len(few) * n)}
    for name, network in (("certify", model), ("certify with torch.compile", torch.compile(model))):
        rates[name] = rate(lambda network=network: certify(network, few, sigma=SIGMA, n=n, n0=50), len(few) * (n + 50))
    return rates


def stopping(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, n: int) -> dict[str, float]:
    fixed = votes(SETTINGS, model, x, SIGMA, n)
    early = certify(fused(model), x, sigma=SIGMA, n=n, alpha=ALPHA, target_radius=RADIUS)
    return {
        "images": len(x),
        "fixed samples per image": fixed.samples.double().mean().item(),
        "sequential samples per image": early.samples.double().mean().item(),
        "times fewer": (fixed.samples.double().mean() / early.samples.double().mean()).item(),
        "fixed certified accuracy": fixed.accuracy(y, RADIUS),
        "sequential certified accuracy": early.accuracy(y, RADIUS),
    }


def peak_memory(n: int) -> float:
    """Megabytes, in a process of its own."""
    out = subprocess.run([sys.executable, __file__, "--peak", str(n)], capture_output=True, text=True, check=True)
    return int(out.stdout) / 1024


def only_certify(n: int) -> None:
    certify(smoothed(SETTINGS, "stability", SIGMA), load("mnist", "test").x[:1], sigma=SIGMA, n=n)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--peak", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.peak:
        only_certify(arguments.peak)
        return
    model = smoothed(SETTINGS, "stability", SIGMA)
    x, y = images(SETTINGS, arguments.images)
    rates = speed(model, x)
    result = {
        "command": f"python bench/certify.py --images {arguments.images} --n {arguments.n}",
        "samples per CPU-second": rates,
        "times the plain loop": {name: value / next(iter(rates.values())) for name, value in rates.items()},
        "radius 0.5": stopping(model, x, y, arguments.n),
        "peak megabytes": {n: peak_memory(n) for n in (1000, 10_000, 100_000)},
    }
    keep("certify", result)


if __name__ == "__main__":
    main()
