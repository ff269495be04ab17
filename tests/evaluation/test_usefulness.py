"""Measures of usefulness where their values are known."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import nn

from leakmeter.evaluation.usefulness import _rank_correlation, usefulness
from leakmeter.victims.load import load_victim
from leakmeter.victims.victim import Victim


@pytest.fixture(scope="module")
def victim() -> Victim:
    """The first two of ten features decide."""
    layer = nn.Linear(10, 2)
    with torch.no_grad():
        layer.weight.zero_()
        layer.weight[1, :2] = torch.tensor([4.0, 3.0])
        layer.bias.copy_(torch.tensor([1.0, 0.0]))
    return load_victim(layer, input_shape=(10,), low=0.0, high=1.0, outputs="logits")


@pytest.fixture(scope="module")
def x() -> torch.Tensor:
    return 0.5 + 0.5 * torch.rand(40, 10, generator=torch.Generator().manual_seed(0))


def test_a_true_map_is_faithful_stable_and_beats_a_reversed_one(victim: Victim, x: torch.Tensor) -> None:
    found = usefulness(victim, "logits+gradxinput", x)
    assert found is not None
    assert found.gap > 0.2
    assert found.stability > 0.99
    assert found.agreement == pytest.approx(1)
    assert found.infidelity < 0.1


def test_a_gradient_is_read_as_what_features_add(victim: Victim, x: torch.Tensor) -> None:
    slope, product = (usefulness(victim, f"logits+{name}", x) for name in ("gradient", "gradxinput"))
    assert slope.model_dump() == pytest.approx(product.model_dump(), abs=1e-6)


def test_noise_costs_usefulness(victim: Victim, x: torch.Tensor) -> None:
    whole, noisy = (usefulness(victim, f"logits+gradient{more}", x) for more in ("", "/noise:5"))
    assert noisy.gap < whole.gap
    assert noisy.infidelity > whole.infidelity
    assert noisy.stability < 0.9
    assert noisy.agreement < 0.7


def test_what_is_no_map_has_none(victim: Victim, x: torch.Tensor) -> None:
    assert usefulness(victim, "labels+counterfactual", x) is None
    assert usefulness(victim, "probs", x) is None


def test_ranks_agree_with_scipy() -> None:
    one, other = np.random.default_rng(0).integers(0, 5, (2, 3, 20)).astype(float)
    expected = np.mean([spearmanr(a, b).statistic for a, b in zip(one, other, strict=True)])
    assert _rank_correlation(torch.from_numpy(one), torch.from_numpy(other)) == pytest.approx(expected)
