"""Learned recovery: from what a known defense shows back to what the victim said (after D-DAE and partial Bayes).

The attacker puts the defense before shadow answers of its own and fits a small network to the way back. The cross
entropy it minimises is least at the mean of all true answers that are shown alike: the Bayes reading.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

import torch
from torch import Tensor, nn

from leakmeter.defenses.shadow import shadow_answers
from leakmeter.seeds import private_randomness, stream

_ROWS, _STEPS, _BATCH, _WIDTH, _RATE = 20_000, 400, 256, 96, 4e-3
_LEAST = 1e-4  # added before a logarithm: below this nothing that is shown is believed
_SEED = 0  # of the attacker's own draws


class Changes(Protocol):
    """What is recovered from; equal ones, by `==` and hash, are learned once."""

    def change(self, probs: Tensor, noise: torch.Generator) -> Tensor:
        """What is shown instead of these probabilities."""

    def __hash__(self) -> int: ...


def recovered(defense: Changes, shown: Tensor) -> Tensor:
    """The mean of what the victim may have said where `shown` is shown, [n, classes]."""
    network = _learned(defense, shown.shape[1])
    ordered, order = shown.double().sort(dim=1, descending=True, stable=True)
    with torch.no_grad():
        read = network(_features(ordered)).double().softmax(1)
    return torch.empty_like(read).scatter(1, order, read)


@lru_cache(maxsize=8)
def _learned(defense: Changes, classes: int) -> nn.Module:
    """Works on classes in the order of what is shown of them: a defense does not know their names."""
    noise = stream(_SEED, "recovery")
    truth = shadow_answers(_ROWS, classes, noise)
    ordered, order = defense.change(truth, noise).sort(dim=1, descending=True, stable=True)
    inputs, targets = _features(ordered), truth.gather(1, order).float()
    # Answers may come from an inference-mode caller, under which nothing can be learned.
    with torch.inference_mode(False), torch.enable_grad(), private_randomness(_SEED):
        network = nn.Sequential(
            nn.Linear(2 * classes, _WIDTH), nn.ReLU(), nn.Linear(_WIDTH, _WIDTH), nn.ReLU(), nn.Linear(_WIDTH, classes)
        )
        _fit(network, inputs.clone(), targets.clone(), noise)
    return network.eval()


def _fit(network: nn.Module, inputs: Tensor, targets: Tensor, noise: torch.Generator) -> None:
    optimizer = torch.optim.Adam(network.parameters(), lr=_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, _STEPS)
    for _ in range(_STEPS):
        rows = torch.randint(len(inputs), (_BATCH,), generator=noise)
        loss = nn.functional.cross_entropy(network(inputs[rows]), targets[rows])
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        schedule.step()


def _features(ordered: Tensor) -> Tensor:
    return torch.cat([ordered, (ordered + _LEAST).log() / 4], 1).float()
