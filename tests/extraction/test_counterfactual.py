"""Counterfactuals as an attacker reads them: the published loss as published, and a boundary from a few queries."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

import leakmeter as lm
from leakmeter.errors import UsageError
from leakmeter.extraction.counterfactual import clamped
from leakmeter.training.loop import Recipe

RECIPE = Recipe(steps=200, batch=16, lr=3e-2, schedule="cyclic")


@pytest.mark.parametrize("k", [0.5, 0.7])
def test_the_clamping_loss_is_the_published_one(k: float) -> None:
    p = torch.tensor([0.05, 0.3, 0.499, k - 1e-6, k + 1e-6, 0.9])
    entropy = -k * math.log(k) - (1 - k) * math.log(1 - k)
    expected = torch.where(p <= k, -k * p.log() - (1 - k) * (1 - p).log() - entropy, torch.zeros(6))
    torch.testing.assert_close(clamped(p.logit(), k), expected, atol=1e-5, rtol=1e-4)


def oracle(view: str, budget: int) -> lm.Oracle:
    weight = np.array([2.0, -1.0, 0.5])

    def model(rows: np.ndarray) -> np.ndarray:
        return (rows @ weight > 0.6).astype(int)

    victim = lm.load_victim(model, input_shape=(3,), low=0.0, high=1.0, classes=2, outputs="labels")
    return lm.Oracle(victim, view, budget)


def test_a_boundary_is_learned_from_fewer_queries_than_labels_alone_take() -> None:
    test = torch.rand(2000, 3, generator=torch.Generator().manual_seed(0))
    pool = torch.rand(12, 3, generator=torch.Generator().manual_seed(1))
    options = {"pool": pool, "student": "linear", "test": test, "recipe": RECIPE}
    plain = lm.extract("surrogate", oracle("labels", 12), **options).curve[-1].score.fidelity
    found = {
        loss: lm.extract("counterfactual", oracle("labels+counterfactual", 12), loss=loss, **options)
        for loss in ("boundary", "clamping", "labels")
    }
    fidelity = {loss: made.curve[-1].score.fidelity for loss, made in found.items()}
    assert fidelity["boundary"] > 0.96
    assert fidelity["boundary"] > plain
    assert min(fidelity.values()) > 0.8
    assert found["boundary"].notes["counterfactuals"] == 12


def test_rows_without_a_counterfactual_are_queries_like_any() -> None:
    victim = lm.load_victim(nn.Linear(3, 2), low=0.0, high=1.0)
    with torch.no_grad():
        victim.white_box.weight.zero_()
        victim.white_box.bias.copy_(torch.tensor([5.0, 0.0]))
    made = lm.extract(
        "counterfactual", lm.Oracle(victim, "probs+counterfactual", 4), student="linear", recipe=Recipe(steps=3)
    )
    assert made.notes["counterfactuals"] == 0


def test_other_views_are_refused() -> None:
    with pytest.raises(UsageError, match=r"needs a view with \+counterfactual, got 'labels'"):
        lm.extract("counterfactual", oracle("labels", 3))
