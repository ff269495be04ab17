"""WSMK18 in table 1 of STN: a network trained for the dual bound, certified on MNIST at an l2 distance of 1.58.

One convolution and two dense layers: small enough for exact bounds of every unit. The distance grows over the training.
The cascade, further networks for what the first leaves uncertified, is not built.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from leakmeter.certificates.dual import dual_certified, dual_loss
from leakmeter.data.catalogue import load
from leakmeter.evaluation.intervals import exact
from leakmeter.evasion.base import evade
from leakmeter.seeds import derive, private_randomness
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.stn._networks import clean_accuracy, images
from leakmeter.training.loop import Batch, Recipe, fit

EPS = 1.58
STAGES = (0.1, 0.4, 0.8, 1.2, EPS, EPS)
"""Distances trained for, one after the other."""
PAPER = {"single": {"certified": 0.435, "natural": 0.882}, "cascade": {"certified": 0.746, "natural": 0.814}}


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `stn-wsmk18.json` into `out`."""
    steps, count = (3, 10) if settings.quick else (100, 300)
    record = settings.record("stn-wsmk18", eps=EPS, norm="l2", stages=STAGES, steps=steps, batch=64, paper=PAPER)
    for number in settings.numbers:
        record.cell(f"single/seed{number}", partial(_single, settings, steps, count, number))
    return record.write()


def small_network(seed: int) -> nn.Sequential:
    """A convolution of 12 channels, 5x5 with stride 3, then 768-32-10."""
    with private_randomness(seed):
        return nn.Sequential(
            nn.Conv2d(1, 12, 5, stride=3), nn.ReLU(), nn.Flatten(), nn.Linear(768, 32), nn.ReLU(), nn.Linear(32, 10)
        )


def _single(settings: StudyOptions, steps: int, count: int, seed: int) -> dict[str, Any]:
    network = small_network(derive(seed, "wsmk18"))
    data = load("mnist", "train", settings.data_dir).labelled()
    for stage, eps in enumerate(STAGES):
        lr = 2e-3 if stage < len(STAGES) - 1 else 5e-4
        recipe = Recipe(steps=steps, batch=64, lr=lr)
        fit(network, data, partial(_loss, eps), recipe, seed=derive(seed, "stage", stage), progress=settings.progress)
    x, y = images(settings, count)
    network.eval()
    return measured(network, x, y, seed) | {"natural": clean_accuracy(settings, network)}


def _loss(eps: float, network: nn.Module, batch: Batch, _: torch.Generator) -> Tensor:
    x, y = batch
    return dual_loss(network, x, y, eps, "l2")


def measured(network: nn.Module, x: Tensor, y: Tensor, seed: int, eps: float = EPS) -> dict[str, Any]:
    """Certified accuracy, beside what an attack leaves: it may be no lower."""
    held = dual_certified(network, x, y, eps, "l2")
    found = evade("pgd", network, x, y, norm="l2", eps=eps, seed=seed)
    with torch.inference_mode():
        after = network(found.examples).argmax(1) == y
    return {
        "images": len(y),
        "certified": float(held.double().mean()),
        "interval": exact(int(held.sum()), len(y)).model_dump(),
        "under_attack": float(after.double().mean()),
        "certified_and_broken": int((held & ~after).sum()),
    }
