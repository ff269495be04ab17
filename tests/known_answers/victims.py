"""Whole audits of victims whose answer is known before the audit: what an owner reads must be that answer."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import leakmeter as lm
from leakmeter.results import AuditResult, Check

FEATURES = 8
QUICK = {"name": "surrogate", "recipe": {"steps": 200, "batch": 64, "lr": 5e-3}, "student": "mlp:16"}
"""A thief that learns fast: these victims are small."""


class Audited:
    """A finished audit, as its owner reads it."""

    def __init__(self, result: AuditResult) -> None:
        self.result = result
        self.verdict = result.verdict

    @property
    def text(self) -> str:
        """Everything the verdict says."""
        verdict = self.verdict
        return "\n".join([verdict.headline, *verdict.sentences, *(ruling.message for ruling in verdict.rulings)])

    def check(self, name: str) -> Check:
        """A line under "Can this audit be believed?"."""
        return next(check for check in self.verdict.checks if check.name == name)


Audit = Callable[..., Audited]


def inputs(n: int = 300, seed: int = 0) -> Tensor:
    """Test inputs that no attack draws."""
    return torch.rand(n, FEATURES, generator=torch.Generator().manual_seed(seed))


def balanced_net(*layers: int, seed: int = 0, scale: float = 3.0) -> nn.Sequential:
    """A ReLU network whose classes all occur about equally often on inputs of the box."""
    torch.manual_seed(seed)
    sizes = (FEATURES, *layers)
    parts: list[nn.Module] = []
    for a, b in itertools.pairwise(sizes):
        parts += [nn.Linear(a, b), nn.ReLU()]
    net = nn.Sequential(*parts[:-1]).eval()
    x, last = inputs(2000, seed=99), net[-1]
    assert isinstance(last, nn.Linear)
    with torch.no_grad():
        for layer in net[:-1:2]:
            layer.weight.mul_(scale)
            layer.bias.copy_(-layer.weight.sum(1) / 2)  # bends through the middle of the box
        last.bias.sub_(net(x).mean(0))
        last.weight.mul_(scale)
        last.bias.mul_(scale)
    return net


@pytest.fixture
def audit(tmp_path: Path) -> Audit:
    def run(victim: Any, x: Tensor | None = None, y: Tensor | None = None, **changes: Any) -> Audited:
        x = inputs() if x is None else x
        spec = {"input_shape": (FEATURES,), "low": 0.0, "high": 1.0} | changes.pop("spec", {})
        loaded = lm.load_victim(victim, **spec)
        if y is None:
            y = lm.Oracle(loaded, "labels").judge(x).labels
        np.savez(tmp_path / "test.npz", x_test=x.numpy(), y_test=y.numpy())
        plan = {
            "victim": {"source": "known:answer"},
            "data": {"name": str(tmp_path / "test.npz")},
            "views": ["probs"],
            "attacks": [QUICK],
            "budget": 200,
            "seeds": [0, 1, 2],
            "detectors": [],
            "policy": {"max_fidelity": {"queries": changes.get("budget", 200), "value": 0.9}},
        } | changes
        return Audited(lm.audit(plan, victim=loaded, out=tmp_path / "runs"))

    return run
