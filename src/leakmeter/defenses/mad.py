"""Maximising angular deviation: answers that send whoever learns from them the wrong way (Orekondy et al. 2020).

The gradient that an answer y gives the last layer of a network which says p on features h is (y - p) hᵀ. MAD shows the
answer whose gradient points furthest away from the true one's. Here the network is one that has learned nothing yet: p
is even, as the answers of the paper's untrained surrogate nearly are, and no network needs to be computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from leakmeter.defenses.base import Defense
from leakmeter.errors import UsageError

_MOST = 0.999  # of the way: at its end the label would tie with other classes


@dataclass(frozen=True)
class Mad(Defense):
    """Goes from the true answer towards the certain one whose angle is largest, as far as `epsilon` in ℓ1 allows.

    The label changes wherever that class overtakes the true one.
    """

    name: ClassVar[str] = "mad"
    epsilon: float

    def __post_init__(self) -> None:
        if not 0 < self.epsilon <= 2:
            raise UsageError(
                f"expected EPSILON of {self.name}:EPSILON above 0 and up to 2, the largest ℓ1 distance of two "
                f"distributions, got {self.epsilon:g}"
            )

    def change(self, probs: Tensor, noise: torch.Generator) -> Tensor:  # noqa: ARG002
        """The answer on the way to the extreme one."""
        away = self.extreme(probs) - probs
        part = (self.epsilon / away.abs().sum(1, keepdim=True).clamp_min(1e-12)).clamp_max(_MOST)
        return probs + part * away

    def extreme(self, probs: Tensor) -> Tensor:
        """The corner of the simplex with the largest angle: against an even p, that of the least likely class."""
        return torch.zeros_like(probs).scatter(1, probs.argmin(1, keepdim=True), 1.0)


@dataclass(frozen=True)
class MadArgmax(Mad):
    """The same among answers that keep the label.

    The corners of that set are even over the label's class and some others. Of all with as many classes, the one with
    the least likely others has the largest angle; which number is best is tried.
    """

    name: ClassVar[str] = "mad-argmax"
    keeps_label: ClassVar[bool] = True

    def extreme(self, probs: Tensor) -> Tensor:
        """The corner with the largest angle."""
        n, classes = probs.shape
        label = probs.argmax(1, keepdim=True)
        order = probs.scatter(1, label, -1.0).argsort(dim=1, stable=True)  # the label, then from the least likely up
        size = torch.arange(1, classes, device=probs.device)  # all classes would be p itself: no direction at all
        mean = probs.gather(1, order).cumsum(1)[:, :-1] / size
        cosine = (mean - 1 / classes) / (1 / size - 1 / classes).sqrt()
        chosen = cosine.argmin(1, keepdim=True) + 1
        even = (torch.arange(classes, device=probs.device) < chosen) / chosen
        return torch.zeros_like(probs).scatter(1, order, even.to(probs).expand(n, classes))
