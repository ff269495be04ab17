"""Saliency maps under SmoothGrad's noise (Milli et al. appendix D, figures 5 to 7): a grid over sigma."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from leakmeter.errors import UsageError
from leakmeter.oracle.oracle import Oracle
from leakmeter.oracle.view import View
from leakmeter.progress import SILENT, Progress
from leakmeter.runs.files import write_atomic
from leakmeter.seeds import stream
from leakmeter.studies.milli_victims import shared_out, victim_of
from leakmeter.victims.load import load_victim
from leakmeter.victims.victim import Victim

FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0, 100.0, 1000.0)
"""Sigma in standard deviations of the data's pixels; the paper picks 1000 on MNIST and 1 on CIFAR-10."""
_SAMPLES = 100


def main(
    out: Path,
    *,
    seed: int = 0,
    seeds: int = 1,  # noqa: ARG001
    quick: bool = False,
    data_dir: Path | None = None,
    device: str = "cpu",
    progress: Progress = SILENT,
    model: str | None = None,
    data: str = "mnist",
    images: int = 5,
) -> dict[str, Any]:
    """Writes `smoothgrad-maps.json` and `.png` into `out`.

    `model` is a victim as `load_victim` reads it, with its shape and box in its own attributes; None trains the paper's
    convolutional network. The images are drawn from the test split of `data`.
    """
    data = "digits" if quick else data
    split = shared_out(data, data_dir)
    victim = (
        victim_of(data, "milli-conv", split, seed=seed, data_dir=data_dir, device=device, progress=progress)
        if model is None
        else load_victim(model, device=device)
    )
    test = split.test
    if victim.spec.input_shape != test.input_shape:
        raise UsageError(
            f"expected a model of inputs {list(test.input_shape)}, as {data} has, got {list(victim.spec.input_shape)}; "
            "choose other data"
        )
    shown = test.take(images, stream(seed, "images"))
    maps = saliency_maps(victim, shown.x, float(test.x.std()), samples=10 if quick else _SAMPLES, seed=seed)
    record = {
        "study": "smoothgrad-maps",
        "command": f"leakmeter study smoothgrad-maps --seed {seed}{' --quick' if quick else ''}",
        "victim": victim.spec.name,
        "seed": seed,
        "standard deviation of the data": float(test.x.std()),
        "cosine to the raw gradient, mean over images": {
            label: _cosine(maps["raw"], map_) for label, map_ in maps.items()
        },
    }
    out.mkdir(parents=True, exist_ok=True)
    write_atomic(out / "smoothgrad-maps.json", (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode())
    _draw(shown.x, maps, out / "smoothgrad-maps.png")
    return record


def saliency_maps(victim: Victim, x: Tensor, spread: float, *, samples: int, seed: int) -> dict[str, Tensor]:
    """The gradient of the class named, raw and for every sigma, each [n, *shape]."""
    width = victim.spec.width
    unit = spread if width is None else spread / float(width.mean())
    views = {f"{factor:g}σ": View("logits", None, None, "smoothgrad", samples, factor * unit) for factor in FACTORS}
    maps = {}
    for label, view in {"raw": View("logits", explanation="gradient"), **views}.items():
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
