"""Saliency maps under SmoothGrad's noise (Milli et al. appendix D, figures 5 to 7): a grid over sigma."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from leakmeter.errors import UsageError
from leakmeter.oracle.explanations.smoothgrad import SmoothGrad
from leakmeter.oracle.oracle import Oracle
from leakmeter.oracle.view import View
from leakmeter.seeds import stream
from leakmeter.studies.milli._victims import paper_victim, shared_out
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import Row
from leakmeter.victims.load import load_victim
from leakmeter.victims.victim import Victim

FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0, 100.0, 1000.0)
"""Sigma in standard deviations of the data's pixels; the paper picks 1000 on MNIST and 1 on CIFAR-10."""
_SAMPLES, _IMAGES = 100, 5


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `smoothgrad-maps.json` and `.png`.

    `settings.victim` is a model as `load_victim` reads it, with its shape and box in its own attributes; None trains
    the paper's convolutional network. The images are of the test split of `settings.data` (mnist).
    """
    data = settings.data or ("digits" if settings.quick else "mnist")
    split, seed = shared_out(data, settings.data_dir), settings.seed
    if settings.victim is None:
        victim = paper_victim(settings, data, "milli-conv", split, seed)
    else:
        victim = load_victim(settings.victim, device=settings.device)
    test = split.test
    if victim.spec.input_shape != test.input_shape:
        raise UsageError(
            f"expected a model of inputs {list(test.input_shape)}, as {data} has, got {list(victim.spec.input_shape)}; "
            "choose other data"
        )
    shown, spread = test.take(_IMAGES, stream(seed, "images")), float(test.x.std())
    maps = saliency_maps(victim, shown.x, spread, samples=10 if settings.quick else _SAMPLES, seed=seed)
    record = settings.record("smoothgrad-maps", victim=victim.spec.name, data=data, standard_deviation=spread)
    cosines = {label: _cosine(maps["raw"], map_) for label, map_ in maps.items()}
    found = record.write(cosine_to_the_raw_gradient=cosines)
    _draw(shown.x, maps, settings.out / "smoothgrad-maps.png")
    return found


def saliency_maps(victim: Victim, x: Tensor, spread: float, *, samples: int, seed: int) -> dict[str, Tensor]:
    """The gradient of the class named, raw and for every sigma, each [n, *shape]."""
    width = victim.spec.width
    unit = spread if width is None else spread / float(width.mean())
    views = {f"{factor:g}σ": View("logits", explanation=SmoothGrad(samples, factor * unit)) for factor in FACTORS}
    maps = {}
    for label, view in {"raw": View.parse("logits+gradient"), **views}.items():
        answer = Oracle(victim, view, seed=seed).query(x)
        maps[label] = answer.gradients[torch.arange(len(x)), answer.labels]
    return maps


def _cosine(a: Tensor, b: Tensor) -> float:
    return float(torch.cosine_similarity(a.flatten(1), b.flatten(1)).mean())


def _draw(x: Tensor, maps: dict[str, Tensor], place: Path) -> None:
    from matplotlib.figure import Figure  # slow to import, and needed only here

    figure = Figure(figsize=(1.2 * (len(maps) + 1), 1.3 * len(x)), layout="constrained")
    for row in range(len(x)):
        for column, (label, pictures) in enumerate({"input": x, **maps}.items()):
            axes = figure.add_subplot(len(x), len(maps) + 1, row * (len(maps) + 1) + column + 1)
            axes.set_axis_off()
            if row == 0:
                axes.set_title(label, fontsize=8)
            picture = pictures[row] if column == 0 else _visible(pictures[row])
            axes.imshow(picture.permute(1, 2, 0).numpy(), cmap="gray" if column == 0 else "seismic", vmin=0, vmax=1)
    figure.savefig(place, dpi=110)


def _visible(gradient: Tensor) -> Tensor:
    """Signed about the middle for grey images; the absolute value for colour, as in the paper."""
    scaled = gradient / gradient.abs().max().clamp_min(torch.finfo(gradient.dtype).tiny)
    return (scaled + 1) / 2 if len(gradient) == 1 else scaled.abs()


def rows(found: dict[str, Any]) -> list[Row]:
    """How near the maps stay to the raw gradient as noise grows."""
    cosines = found["cosine_to_the_raw_gradient"].items()
    return [Row(f"{noise}: cosine to the raw gradient", f"{value:.2f}", found["victim"]) for noise, value in cosines]
