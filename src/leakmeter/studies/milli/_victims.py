"""The victims of Milli et al. section 4, and how their data is shared out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from leakmeter.data.catalogue import load
from leakmeter.data.dataset import Dataset
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.strangers import resnet20
from leakmeter.studies.victims import trained
from leakmeter.training.loop import Recipe
from leakmeter.victims.load import load_victim
from leakmeter.victims.victim import Victim

_ATTACKER = 10_000  # images the paper gives the attacker; a fifth where the set at hand is not whole
_EPOCHS = {"linear": 5, "mlp": 10, "milli-conv": 3, "lenet": 3}
_MANY_EPOCHS = 30  # for the networks that only a GPU can train in reasonable time


@dataclass(frozen=True)
class Split:
    """A task shared out: how many rows train the victim, the attacker's images and the test's."""

    victim: int
    attacker: Dataset
    test: Dataset


def shared_out(data: str, data_dir: Path | None) -> Split:
    """The paper's split: 50,000 / 10,000 / 10,000 images of MNIST, 40,000 / 10,000 / 10,000 of CIFAR-10."""
    train, test = load(data, "train", data_dir), load(data, "test", data_dir)
    first = len(train) - min(_ATTACKER, len(train) // 5)
    return Split(first, train.rows(torch.arange(first, len(train))), test)


def paper_victim(settings: StudyOptions, data: str, model: str, split: Split, seed: int) -> Victim:
    """One victim a model and seed (in the paper one a model), behind an open box: its Gaussian queries leave [0, 1].

    `resnet20` others trained on CIFAR-10, for every seed.
    """
    shape, name = split.test.input_shape, f"{data} {model}"
    if model == "resnet20":
        return load_victim(resnet20(), input_shape=shape, low=None, high=None, device=settings.device, name=name)
    recipe = Recipe(epochs=_EPOCHS.get(model.partition(":")[0], _MANY_EPOCHS), batch=128, lr=1.5e-3, schedule="cyclic")
    network = trained(
        data,
        model,
        seed=seed,
        first=split.victim,
        recipe=recipe,
        data_dir=settings.data_dir,
        device=settings.device,
        progress=settings.progress,
    )
    return load_victim(network, input_shape=shape, low=None, high=None, device=settings.device, name=name)
