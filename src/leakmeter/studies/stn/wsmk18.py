"""WSMK18 in table 1 of STN: networks trained for the dual bound, certified on MNIST at an l2 distance of 1.58.

One convolution and two dense layers: small enough for exact bounds of every unit. The distance grows over the training.
A cascade has further networks, each trained on what those before it leave uncertified; the first that certifies its own
answer gives it, and the last where none does. What is certified is the network that answers, not the cascade: a
neighbour of the input may be answered by an earlier one.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from leakmeter.certificates.dual import dual_certified, dual_loss, worst_margins
from leakmeter.checkpoint import DiskCheckpoint
from leakmeter.data.catalogue import load
from leakmeter.data.places import cache
from leakmeter.evaluation.intervals import exact
from leakmeter.evasion.base import evade
from leakmeter.files import write_atomic
from leakmeter.seeds import derive, private_randomness
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.provenance import fingerprint
from leakmeter.studies.rows import Row, by_group, share
from leakmeter.studies.stn._networks import images
from leakmeter.tensors import to_safetensors
from leakmeter.training.loop import Batch, Recipe, fit

EPS = 1.58
STAGES = (0.4, 0.8, 1.2, EPS, EPS, EPS, EPS)
"""Distances trained for, one after the other."""
NETWORKS = 2
"""Of the cascade. The paper's has more."""
POOL = 10_000
"""Training images of which a later network of the cascade sees those that are left."""
PAPER = {"single": {"certified": 0.435, "natural": 0.882}, "cascade": {"certified": 0.746, "natural": 0.814}}


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `stn-wsmk18.json` into `out`."""
    steps, count = (3, 10) if settings.quick else (100, 1000)
    about = {"stages": STAGES, "steps": steps, "batch": 64, "networks": NETWORKS, "paper": PAPER}
    record = settings.record("stn-wsmk18", eps=EPS, norm="l2", **about)
    for name, length in (("single", 1), ("cascade", NETWORKS)):
        for number in settings.numbers:
            record.cell(f"{name}/seed{number}", partial(_cell, settings, steps, length, number, count))
    return record.write()


def rows(found: dict[str, Any]) -> list[Row]:
    """Certified and natural accuracy, one network and a cascade."""
    told = []
    for name, cells in by_group(found["cells"]).items():
        budget = f"{cells[0]['images']:,} images, {sum(cell['certified_and_broken'] for cell in cells)} broken by PGD"
        for what in ("certified", "natural"):
            values, paper = [cell[what] for cell in cells], PAPER[name][what]
            told.append(share(f"{name}: {what}", values, cells[0]["images"], budget, paper=paper))
    return told


def _cell(settings: StudyOptions, steps: int, length: int, seed: int, count: int) -> dict[str, Any]:
    return measured(cascade(settings, steps, length, seed), *images(settings, count), seed=seed)


def small_network(seed: int) -> nn.Sequential:
    """A convolution of 12 channels, 5x5 with stride 3, then 768-32-10."""
    with private_randomness(seed):
        return nn.Sequential(
            nn.Conv2d(1, 12, 5, stride=3), nn.ReLU(), nn.Flatten(), nn.Linear(768, 32), nn.ReLU(), nn.Linear(32, 10)
        )


def cascade(settings: StudyOptions, steps: int, length: int, seed: int) -> list[nn.Module]:
    """The first networks of the seed's cascade; each is kept in the user's cache."""
    networks: list[nn.Module] = []
    for place in range(length):
        network = small_network(derive(seed, "wsmk18", place))
        path = cache() / "victims" / f"wsmk18-{fingerprint()}-{steps}-{seed}-{place}.safetensors"
        if path.exists():
            network.load_state_dict(safetensors.torch.load(path.read_bytes()))
        else:
            half = path.with_suffix("")  # where a training that was killed goes on
            robustly(network, _left(settings, networks), steps, settings, half, seed=derive(seed, "training", place))
            write_atomic(path, to_safetensors({name: part.contiguous() for name, part in network.state_dict().items()}))
            shutil.rmtree(half, ignore_errors=True)
        networks.append(network.eval())
    return networks


def robustly(network: nn.Module, data: Batch, steps: int, settings: StudyOptions, half: Path, *, seed: int) -> None:
    """Trains for one distance after the other, in place; `half` is a folder for states that survive a kill."""
    for stage, eps in enumerate(STAGES):
        recipe = Recipe(steps=steps, batch=64, lr=2e-3 if stage < len(STAGES) - 1 else 5e-4)
        fit(
            network,
            data,
            partial(_loss, eps),
            recipe,
            seed=derive(seed, "stage", stage),
            progress=settings.progress,
            title=f"within {eps}",
            checkpoint=DiskCheckpoint(half / f"{stage}.pt"),
        )


def _loss(eps: float, network: nn.Module, batch: Batch, _: torch.Generator) -> Tensor:
    x, y = batch
    return dual_loss(network, x, y, eps, "l2")


def _left(settings: StudyOptions, networks: Sequence[nn.Module]) -> tuple[Tensor, Tensor]:
    """The training images that no network certifies."""
    x, y = load("mnist", "train", settings.data_dir).labelled()
    if networks:
        x, y = (x[:100], y[:100]) if settings.quick else (x[:POOL], y[:POOL])
    for network in networks:
        rest = ~torch.cat([_certifies(network, part) for part in torch.split(x, 100)])
        x, y = x[rest], y[rest]
    return x, y


@torch.no_grad()
def _certifies(network: nn.Module, x: Tensor) -> Tensor:
    """Which inputs the network certifies its own answer of, in the precision it trains in: no figure rests on it."""
    answers = network(x).argmax(1)
    margins = worst_margins(network, x, answers, EPS, "l2").scatter(1, answers[:, None], torch.inf)
    return margins.amin(1) > 0


def measured(networks: Sequence[nn.Module], x: Tensor, y: Tensor, *, seed: int, eps: float = EPS) -> dict[str, Any]:
    """Certified and natural accuracy, beside what an attack on the network that answers leaves: it may be no lower."""
    answers, held = torch.full_like(y, -1), torch.zeros(len(y), dtype=torch.bool)
    after = torch.zeros_like(held)
    for place, network in enumerate(networks):
        rows = (~held).nonzero().flatten()
        with torch.inference_mode():
            answers[rows] = network(x[rows]).argmax(1)
        held[rows] = dual_certified(network, x[rows], answers[rows], eps, "l2")
        mine = rows[held[rows]] if place < len(networks) - 1 else rows
        if len(mine):
            examples = evade("pgd", network, x[mine], y[mine], norm="l2", eps=eps, seed=seed).examples
            with torch.inference_mode():
                after[mine] = network(examples).argmax(1) == y[mine]
    right = answers == y
    return {
        "images": len(y),
        "certified": float((held & right).double().mean()),
        "interval": exact(int((held & right).sum()), len(y)).model_dump(),
        "natural": float(right.double().mean()),
        "under_attack": float(after.double().mean()),
        "certified_and_broken": int((held & right & ~after).sum()),
    }
