"""The dual bound checked against a solver and against attacks; a stranger's network certified by it and by STN.

The network is one that WSMK18's method trained (`cifar10-conv-kw-base.onnx` in the folder LEAKMETER_VICTIMS), for
changes of every pixel by at most 2/255. STN's votes are those of the same network on the same images: nobody trained it
for noise. Inputs are the classes' own, so that a certificate counts where the network is right.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from leakmeter.certificates.dual import Ball, dual_certified
from leakmeter.evaluation.intervals import exact
from leakmeter.evasion.base import evade
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import Row, share
from leakmeter.studies.stn._networks import ALPHA, clean_accuracy, images, votes
from leakmeter.studies.stn._program import off_by
from leakmeter.studies.strangers import wsmk18

PROGRAMS = 100
EPS = round(2 / 255, 6)
RADII = (0.0, 0.025, 0.05, 0.075, 0.1, round(36 / 255, 4), 0.2)
SIGMAS = (0.05, 0.1, 0.2)
_FINE = 5  # halvings of the largest radius


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `stn-dual.json` and `.png` into `out`."""
    programs, attacked, count, n = (3, 5, 2, 100) if settings.quick else (PROGRAMS, 500, 100, 1000)
    record = settings.record("stn-dual", network="cifar10-conv-kw-base.onnx", alpha=ALPHA, n=n)
    record.cell(f"{programs} programs", partial(_programs, settings.seed, programs))
    network = wsmk18()
    record.cell("natural", partial(clean_accuracy, settings, network, "cifar10"))
    x, y = images(settings, attacked, "cifar10")
    record.cell("attacks, linf", partial(_attacked, network, x, y, EPS, "linf", settings.seed))
    x, y = images(settings, count, "cifar10")
    record.cell("dual, l2", lambda: _curve(dual_radii(network, x, y, "l2", RADII[-1])))
    for sigma in SIGMAS:
        record.cell(f"STN, sigma {sigma:g}", partial(_smoothed, settings, network, x, y, sigma, n))
    found = record.write()
    _draw(found["cells"], settings.out / "stn-dual.png")
    return found


def rows(found: dict[str, Any]) -> list[Row]:
    """The bound against a solver and an attack; the stranger's network by the bound and by votes."""
    cells = found["cells"]
    programs = next(cell for key, cell in cells.items() if key.endswith("programs"))
    attacked = cells["attacks, linf"]
    off, looser = programs["largest_difference"], programs["looser_than_hull"]
    broken, n = attacked["certified_and_broken"], attacked["images"]
    told = [
        Row("off the program's optimum", f"{off:.1e}", f"{programs['networks']} networks", 1, "goal 1e-6", off <= 1e-6),
        Row("below the optimum with the ReLU's hull", f"{looser} of {programs['networks']}", "linf"),
        Row("certified and broken, linf 2/255", f"{broken} of {n}", "PGD, 40 steps", 1, "goal 0", broken == 0),
        share("certified by the bound, linf 2/255", [attacked["certified"]], n, f"{n} images"),
    ]
    for name in (key for key in cells if key.startswith(("dual", "STN"))):
        points = [point for point in cells[name] if point["radius"] in (0.05, RADII[-2])]
        inputs = points[0]["interval"]["n"]
        budget = f"{inputs} images" + (f", {found['n']:,} votes" if name.startswith("STN") else "")
        told += [share(f"{name}: certified at {p['radius']:g}", [p["accuracy"]], inputs, budget) for p in points]
    return told


def _programs(seed: int, count: int) -> dict[str, Any]:
    found = [off_by(number) for number in range(seed, seed + count)]
    return {
        "networks": count,
        "largest_difference": max(each["difference"] for each in found),
        "above_hull": max(-each["under_hull"][0] for each in found),
        "looser_than_hull": sum(each["under_hull"][1] > 1e-6 for each in found),
    }


def _attacked(network: nn.Module, x: Tensor, y: Tensor, eps: float, norm: Ball, seed: int) -> dict[str, Any]:
    """What the bound holds, beside what an attack breaks: nothing may be in both."""
    held = dual_certified(network, x, y, eps, norm)
    found = evade("pgd", network, x, y, norm=norm, eps=eps, seed=seed, steps=40)
    with torch.inference_mode():
        after = network(found.examples).argmax(1) == y
    return {
        "images": len(y),
        "certified": float(held.double().mean()),
        "interval": exact(int(held.sum()), len(y)).model_dump(),
        "under_attack": float(after.double().mean()),
        "certified_and_broken": int((held & ~after).sum()),
    }


def dual_radii(network: nn.Module, x: Tensor, y: Tensor, norm: Ball, most: float) -> Tensor:
    """The largest radius that the bound certifies of each input, by halving and no larger than `most`; -1: wrong."""
    with torch.inference_mode():
        right = network(x).argmax(1) == y
    low, high = torch.where(right, 0.0, -1.0), torch.full((len(y),), most)
    for _ in range(_FINE):
        middle = (low + high) / 2
        for row in right.nonzero().flatten().tolist():
            held = dual_certified(network, x[row : row + 1], y[row : row + 1], float(middle[row]), norm)
            (low if held else high)[row] = middle[row]
    return low


def _smoothed(
    settings: StudyOptions, network: nn.Module, x: Tensor, y: Tensor, sigma: float, n: int
) -> list[dict[str, Any]]:
    found = votes(settings, network, x, sigma, n, seed=settings.seed)
    return _curve(torch.where(found.labels == y, found.radii, -1.0))


def _curve(radii: Tensor) -> list[dict[str, Any]]:
    """The share of inputs whose certified radius is at least each of `RADII`."""
    counts = [int((radii >= radius).sum()) for radius in RADII]
    return [
        {"radius": radius, "accuracy": count / len(radii), "interval": exact(count, len(radii)).model_dump()}
        for radius, count in zip(RADII, counts, strict=True)
    ]


def _draw(cells: dict[str, Any], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5, 3.8), layout="constrained")
    axes = figure.subplots()
    for name, points in cells.items():
        if name.startswith(("dual", "STN")):
            axes.plot([p["radius"] for p in points], [p["accuracy"] for p in points], "o-", markersize=3, label=name)
    axes.set(xlabel="ℓ2 radius", ylabel="certified accuracy", title="one network of WSMK18, CIFAR-10", ylim=(0, 1))
    axes.legend(fontsize="small")
    figure.savefig(path, dpi=120)
