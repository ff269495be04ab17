"""Victims for the studies of explanations: a network of pictures, one of a table, and boosted trees.

A table's columns are scaled to [0, 1] by their least and largest values, words counting as the number of their level.
Its rows are parted by the seed: half trains the victim, a quarter is the thief's, a quarter is for the score.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray
from torch import Tensor, nn

from leakmeter.data.catalogue import load
from leakmeter.data.places import roots
from leakmeter.errors import UsageError
from leakmeter.seeds import derive, private_randomness, stream
from leakmeter.studies.copies import network_of
from leakmeter.studies.options import StudyOptions
from leakmeter.training.loop import Batch, Recipe, fit
from leakmeter.victims.load import load_victim
from leakmeter.victims.victim import Victim

TABLES = {"adult": "Adult_processedMACE.csv", "compas": "COMPAS-ProPublica_processedMACE.csv"}
REHEARSAL = "breast-cancer"
"""Comes with scikit-learn: for a version that shows the shape only."""


@dataclass(frozen=True, eq=False)
class Panel:
    """A victim, the thief's own inputs, and those it is scored on."""

    name: str
    victim: Victim
    pool: Tensor
    test: tuple[Tensor, Tensor]
    student: str
    blind: str = "surrogate"
    """The attack that reads answers alone."""


def pictures(settings: StudyOptions, seed: int) -> Panel:
    """LeNet on MNIST, copied into a wider one from images of the train split; in the quick version on digits."""
    data = "digits" if settings.quick else "mnist"
    train, test = (load(data, split, settings.data_dir) for split in ("train", "test"))
    victim = load_victim(network_of(settings, data, "lenet", seed), input_shape=train.input_shape, low=0.0, high=1.0)
    order = torch.randperm(len(train), generator=stream(seed, "thief"))
    return Panel(f"{data} lenet", victim, train.x[order], test.labelled(), "lenet:24")


def table(settings: StudyOptions, name: str, seed: int) -> Panel:
    """A network of 20 and 10 hidden units."""
    x, y = _rows(settings, name)
    own, thief, test = _parts(len(x), seed)
    with private_randomness(derive(seed, "victim")):
        network = nn.Sequential(nn.Linear(x.shape[1], 20), nn.ReLU(), nn.Linear(20, 10), nn.ReLU(), nn.Linear(10, 2))
    recipe = Recipe(steps=300 if settings.quick else 3000, batch=128, lr=5e-3, schedule="cyclic")
    fit(network, (x[own], y[own]), _cross_entropy, recipe, seed=derive(seed, "victim"))
    victim = load_victim(network, input_shape=tuple(x.shape[1:]), low=0.0, high=1.0, outputs="logits")
    return Panel(f"{name} mlp", victim, x[thief], (x[test], y[test]), "mlp:64")


def trees(settings: StudyOptions, name: str, seed: int) -> Panel:
    """100 boosted trees of depth three."""
    from sklearn.ensemble import GradientBoostingClassifier

    x, y = _rows(settings, name)
    own, thief, test = _parts(len(x), seed)
    model = GradientBoostingClassifier(n_estimators=100, max_depth=3, random_state=derive(seed, "victim") % 2**32)
    model.fit(x[own].double().numpy(), y[own].numpy())
    victim = load_victim(model, input_shape=tuple(x.shape[1:]), low=0.0, high=1.0)
    return Panel(f"{name} boosted trees", victim, x[thief], (x[test], y[test]), "mlp:64", "tabular")


def _cross_entropy(model: nn.Module, batch: Batch, _: torch.Generator) -> Tensor:
    return F.cross_entropy(model(batch[0]), batch[1])


def _parts(n: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    order = torch.randperm(n, generator=stream(seed, "rows"))
    return order[: n // 2], order[n // 2 : 3 * n // 4], order[3 * n // 4 :]


def _rows(settings: StudyOptions, name: str) -> tuple[Tensor, Tensor]:
    if name == REHEARSAL:
        from sklearn.datasets import load_breast_cancer

        x, y = load_breast_cancer(return_X_y=True)
    else:
        with _file(settings.data_dir, TABLES[name]).open() as file:
            header, _, _, *rows = list(csv.reader(file))  # beside the names: kinds, and what may be acted on
        columns = [_codes([row[place] for row in rows]) for place in range(len(header))]
        x, y = np.stack(columns[:-1], 1), columns[-1]
    low, high = x.min(0), x.max(0)
    unit = (x - low) / np.where(high > low, high - low, 1)
    return torch.from_numpy(unit).float(), torch.from_numpy(np.unique(y, return_inverse=True)[1]).long()


def _file(data_dir: Path | None, name: str) -> Path:
    places = [root / "tabular" / name for root in roots(data_dir)]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise UsageError(f"expected the file tabular/{name} in a data folder; give --data-dir, or use --quick")
    return found


def _codes(values: list[str]) -> NDArray[np.float64]:
    try:
        return np.array([float(value) for value in values])
    except ValueError:
        levels = sorted(set(values))
        return np.array([float(levels.index(value)) for value in values])
