"""The demo's victim: a small network trained on scikit-learn's digits, the data every user has."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from leakmeter.data.catalogue import load
from leakmeter.models import make_model
from leakmeter.training.loop import Batch, Recipe, fit

PLAN: dict[str, Any] = {
    "name": "demo",
    "victim": {"source": "leakmeter.demo:digits_victim", "low": 0.0, "high": 1.0},
    "data": {"name": "digits"},
    "views": ["probs", "labels"],
    "budget": 2000,
    "stops": [1, 30, 250],
    "seeds": [0, 1, 2],
    "attacks": [
        {"name": "auto", "effort": 0.22},
        {"name": "auto", "effort": 0.1, "sources": [], "pool": "digits", "control": True},
    ],
    "transfer": {"attack": "pgd", "limit": 100},
    "certify": {"sigma": 0.1, "n": 500, "limit": 100},
}

QUICK: dict[str, Any] = {
    **{key: PLAN[key] for key in ("victim", "data")},
    "name": "demo-quick",
    "views": ["labels"],
    "budget": 500,
    "quick": True,
    "attacks": [{"name": "auto"}],
    "transfer": {"attack": "fgsm", "limit": 50},
}
"""Half a minute: whether everything is in place, not what leaks."""


def digits_victim() -> nn.Module:
    """LeNet on 8x8 digits, about 97 % accurate, trained in a few seconds."""
    data = load("digits", "train")
    x, y = data.labelled()
    model = make_model("lenet", data.input_shape, 10, seed=0)
    return fit(model, (x, y), _cross_entropy, Recipe(epochs=25, batch=64, lr=3e-3, schedule="cyclic"), seed=0)


def _cross_entropy(model: nn.Module, batch: Batch, _: torch.Generator) -> Tensor:
    x, y = batch
    return F.cross_entropy(model(x), y)
