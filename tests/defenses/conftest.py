"""A victim that says what it is told: its probabilities are its inputs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from leakmeter.box import Box
from leakmeter.victims.function import FunctionVictim
from leakmeter.victims.spec import Outputs, VictimSpec
from leakmeter.victims.victim import Victim

CLASSES = 5

Echo = Callable[..., Victim]


@pytest.fixture
def echo() -> Echo:
    def make(outputs: Outputs = "probs", classes: int = CLASSES) -> Victim:
        spec = VictimSpec("echo", (classes,), Box(None, None), classes, outputs)
        return FunctionVictim(lambda x: x.argmax(1) if outputs == "labels" else x, spec)

    return make


@pytest.fixture
def some_probs() -> Tensor:
    """Flat, middling and confident answers."""
    logits = torch.randn(60, CLASSES, generator=torch.Generator().manual_seed(1))
    return (logits * torch.tensor([1.0, 3.0, 12.0]).repeat(20)[:, None]).softmax(1)
