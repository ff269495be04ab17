"""The average radius at sigma 0.5 against what training costs, on MNIST: longer, wider, and STN's own network.

Every network is trained for stability and certified on the same images. What training costs is told in operations, so
that it does not depend on the machine. The goal of 1.55 is for 100,000 votes (`stn-table1`): with fewer the radius has
a lower ceiling, which is told, and only the shape of the curve is to be read. STN's own network costs ten times the
others, so it has a subset of the data and of the votes, and a LeNet with as few beside it.
"""

from __future__ import annotations

from functools import partial
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from leakmeter.certificates import clopper_pearson, tight_radius
from leakmeter.data.catalogue import load
from leakmeter.models import make_model
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import Row, by_group
from leakmeter.studies.stn._networks import ALPHA, RECIPE, measured

SIGMA = 0.5
RADII = (0.0, 0.5, 1.0, 1.5)


class Point(NamedTuple):
    """A network, how long it learns from how many images, and how many of others are certified by how many votes."""

    model: str
    epochs: int
    first: int = 60_000
    images: int = 200
    votes: int = 10_000

    @property
    def name(self) -> str:
        """Of its cells."""
        return f"{self.model}/{self.epochs} epochs of {self.first:,}"


POINTS = [
    *(Point("lenet", epochs) for epochs in (1, 2, 5, 10, 20)),
    *(Point("lenet:12", epochs) for epochs in (2, 5, 10)),
    *(Point(model, 2, 5_000, 50, 1_000) for model in ("lenet", "stn-mnist")),
]
_REHEARSAL = [Point("lenet", 1, 500, 20, 300)]


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `stn-radius.json` and `.png`."""
    record = settings.record("stn-radius", recipe=RECIPE.model_dump(), alpha=ALPHA, sigma=SIGMA)
    for number in settings.numbers:
        for point in _REHEARSAL if settings.quick else POINTS:
            record.cell(f"{point.name}/seed{number}", partial(_cell, settings, point, number))
            _plot(record.content["cells"], settings.out / "stn-radius.png")
    return record.write()


def _cell(settings: StudyOptions, point: Point, seed: int) -> dict[str, Any]:
    recipe = RECIPE.model_copy(update={"epochs": point.epochs})
    network: dict[str, Any] = {"model": point.model, "recipe": recipe, "first": point.first}
    asked: dict[str, Any] = {"count": point.images, "n": point.votes, "radii": RADII, "seed": seed}
    found = measured(settings, "stability", SIGMA, **asked, **network)
    one = _operations(point.model, load("mnist", "test", settings.data_dir).x[:1])
    return {**found, "operations": one * point.first * point.epochs}


def _operations(model: str, x: Tensor) -> int:
    """Of one image in stability training: a clean and a noisy pass, and twice as much again to go back."""
    with FlopCounterMode(display=False) as counter:
        make_model(model, tuple(x.shape[1:]), 10, seed=0)(x)
    return 2 * 3 * int(counter.get_total_flops())


def rows(found: dict[str, Any]) -> list[Row]:
    """The average radius of each network, with p_A at five quantiles of the images."""
    return [_told(name, cells) for name, cells in by_group(found["cells"]).items()]


def _told(name: str, cells: list[dict[str, Any]]) -> Row:
    n, images = cells[0]["n"], cells[0]["images"]
    spread = ", ".join(f"{fmean(cell['p_a'][part] for cell in cells):.4f} at {part}" for part in cells[0]["p_a"])
    cost = f"{cells[0]['operations'] / 1e12:.3g} Tflop of training"
    budget = f"{cost}; {n:,} votes, at most {ceiling(n):.3f}, {images} images; p_A {spread}"
    values = [_radius(cell) for cell in cells]
    ends = f" ({min(values):.3f} to {max(values):.3f})" if len(values) > 1 else ""
    return Row(f"{name}: average radius", f"{fmean(values):.3f}{ends}", budget, len(cells))


def ceiling(n: int) -> float:
    """The radius where all votes agree."""
    low, _ = clopper_pearson(n, n, ALPHA)
    return float(tight_radius(float(low), 1 - float(low), SIGMA))


def _radius(cell: dict[str, Any]) -> float:
    return float(cell["bounds"]["tight"]["average_radius"])


def _plot(cells: dict[str, Any], place: Path) -> None:
    """One curve a network and number of votes: only these compare."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.6), layout="constrained")
    axes = figure.add_subplot(xscale="log", xlabel="operations of training", ylabel="average radius, sigma 0.5")
    groups = [(name.partition("/")[0], group) for name, group in by_group(cells).items()]
    for (model, n), curve in groupby(groups, key=lambda item: (item[0], item[1][0]["n"])):
        points = [(group[0]["operations"], fmean(map(_radius, group))) for _, group in curve]
        axes.plot(*zip(*points, strict=True), marker="o", label=f"{model}, {n:,} votes")
    axes.legend()
    figure.savefig(place, dpi=120)
