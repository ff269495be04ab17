from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from leakmeter.data.catalogue import load
from leakmeter.models import make_model
from leakmeter.training.loop import Recipe, fit

Data = tuple[Tensor, Tensor]


def cross_entropy(model: nn.Module, batch: tuple[Tensor, ...], generator: torch.Generator) -> Tensor:
    return nn.functional.cross_entropy(model(batch[0]), batch[1])


@pytest.fixture(scope="session")
def trained() -> nn.Module:
    """A small ReLU network on the 8×8 digits; weight decay keeps its bounds from being empty."""
    model = make_model("mlp:32", (1, 8, 8), 10, seed=0)
    recipe = Recipe(epochs=30, batch=64, lr=3e-3, weight_decay=1e-3)
    return fit(model, load("digits", "train").labelled(), cross_entropy, recipe, seed=0)


@pytest.fixture(scope="session")
def digits(trained: nn.Module) -> Data:
    """Test digits that the network gets right."""
    x, y = load("digits", "test").labelled()
    right = trained(x).argmax(1) == y
    return x[right][:60], y[right][:60]
