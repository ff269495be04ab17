"""A unit that switches in one corner of the box only: no random line meets it, and a copy without it is wrong there."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import leakmeter as lm
from leakmeter.seeds import private_randomness

FEATURES = 12


@pytest.mark.parametrize(("attack", "view"), [("exact", "logits+gradient"), ("exact-values", "logits")])
def test_a_copy_without_the_unit_in_the_corner_is_not_called_exact(attack: str, view: str) -> None:
    with private_randomness(0):
        net = nn.Sequential(nn.Linear(FEATURES, 3), nn.ReLU(), nn.Linear(3, 2)).double()
    corner = torch.tensor([1.0, 0.0] * (FEATURES // 2), dtype=torch.float64)
    with torch.no_grad():
        net[0].weight[2] = 2 * corner - 1
        net[0].bias[2] = 0.3 - corner.sum()
        net[2].weight[:, 2] = torch.tensor([1.0, -1.0])
    victim = lm.load_victim(net, input_shape=(FEATURES,), low=0.0, high=1.0, classes=2, outputs="logits")
    found = lm.extract(attack, lm.Oracle(victim, view, budget=12_000), seed=0)
    assert net[0](corner)[2] > 0.29
    off = (found.substitute.double()(corner[None]) - net(corner[None])).abs().max()
    assert off < 1e-6 or not found.findings.exact
    assert found.findings.units == 3 or not found.findings.exact
