"""Victims for `bench/watch.py`, each a folder with what an owner has: a model's file and the test data."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, make_classification
from torch import Tensor

from leakmeter._audit.opening import fit_test, load_test, open_victim
from leakmeter.data.catalogue import load
from leakmeter.evaluation.score import Reference, reference
from leakmeter.plan import Plan, make_plan
from leakmeter.victims.victim import Victim

NETWORK = """
from leakmeter.studies.victims import trained
from leakmeter.training.loop import Recipe

def make():
    return trained("digits", "{model}", seed={seed}, recipe=Recipe(epochs=25, batch=64, lr=3e-3, schedule="cyclic"))
"""


@dataclass(frozen=True, eq=False)
class Watched:
    """A victim, how a plan names it, what thieves may have, what honest users ask, and the truth on test inputs."""

    sections: dict[str, Any]
    victim: Victim
    pool: Tensor
    natural: Tensor
    truth: Reference

    def planned(self, **log: Any) -> Plan:
        """A plan to watch it; keywords go to [log]."""
        return make_plan({"name": "bench", **self.sections, "log": {"detectors": [], **log}})


def opened(sections: dict[str, Any], pool: Tensor) -> Watched:
    plan = make_plan({"name": "bench", **sections, "attacks": [{"name": "auto"}]})
    test = load_test(plan)
    victim = open_victim(plan, test)
    assert test is not None
    test = fit_test(test, victim)
    return Watched(sections, victim, pool, test.x, reference(victim, test))


def digits(folder: Path, seed: int, model: str = "lenet") -> Watched:
    """A network on 8×8 digits."""
    (folder / "victim.py").write_text(NETWORK.format(model=model, seed=seed))
    source = {"source": f"{folder}/victim.py:make", "low": 0.0, "high": 1.0, "classes": 10, "outputs": "logits"}
    return opened({"victim": source, "data": {"name": "digits"}}, load("digits", "train").x)


def cancer(folder: Path, seed: int) -> Watched:
    """XGBoost on 30 numbers, two classes."""
    from xgboost import XGBClassifier

    x, y = load_breast_cancer(return_X_y=True)
    return _table(folder / "model.json", x, y, XGBClassifier(n_estimators=60, max_depth=4, n_jobs=1), seed)


def made_up(folder: Path, seed: int) -> Watched:
    """LightGBM on 12 numbers, three classes."""
    from lightgbm import LGBMClassifier

    x, y = make_classification(2000, 12, n_informative=8, n_classes=3, random_state=seed)
    return _table(folder / "model.txt", x, y, LGBMClassifier(n_estimators=60, n_jobs=1, verbose=-1), seed)


def _table(path: Path, x: np.ndarray, y: np.ndarray, model: Any, seed: int) -> Watched:
    """Half of the rows train the model, a tenth is a thief's own, the others are the owner's test data."""
    order = np.random.default_rng(seed).permutation(len(x))
    train, own, rest = np.split(order, [len(x) // 2, len(x) * 6 // 10])
    model.fit(x[train], y[train])
    getattr(model, "booster_", model).save_model(str(path))
    names = [f"Column_{place}" for place in range(x.shape[1])]
    with (path.parent / "rows.csv").open("w", newline="") as file:
        csv.writer(file).writerows([[*names, "Class"], *(np.column_stack([x[rest], y[rest]]).tolist())])
    data = {"name": str(path.parent / "rows.csv"), "target": "Class"}
    found = opened({"victim": {"source": str(path)}, "data": data}, torch.from_numpy(x[own]).float())
    box = found.victim.spec.box
    return Watched(found.sections, found.victim, found.pool.clamp(box.low, box.high), found.natural, found.truth)


VICTIMS: dict[str, Callable[[Path, int], Watched]] = {
    "digits LeNet": digits,
    "cancer XGBoost": cancer,
    "made-up LightGBM": made_up,
    "digits MLP": lambda folder, seed: digits(folder, seed, "mlp:64"),
}
