"""ModelGuard-S: few different answers, so that each tells little (Tang et al. 2024).

How much an answer can tell is bounded by the logarithm of how many there are. The paper's quantiser is ordered and
grows: a prediction is shown as the first codeword of its label within epsilon, and becomes one itself where there is
none. Here the codebook is grown beforehand, on shadow answers: what is shown then depends on the answer alone, not on
who asked what before.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import torch
from torch import Tensor

from leakmeter.defenses.base import Defense
from leakmeter.defenses.shadow import shadow_answers
from leakmeter.errors import UsageError
from leakmeter.seeds import stream

_DRAWS = 4000
_POINTS = 1 << 22  # numbers at once


@dataclass(frozen=True)
class ModelGuardS(Defense):
    """Shows the first codeword within `epsilon` in ℓ1; where none is, the answer moved so far towards the nearest."""

    name: ClassVar[str] = "modelguard-s"
    keeps_label: ClassVar[bool] = True
    epsilon: float

    def __post_init__(self) -> None:
        if not 0 < self.epsilon <= 2:
            raise UsageError(f"expected EPSILON of modelguard-s:EPSILON above 0 and up to 2, got {self.epsilon:g}")

    def change(self, probs: Tensor, noise: torch.Generator) -> Tensor:  # noqa: ARG002
        """The codeword of each row."""
        code = codebook(self.epsilon, probs.shape[1]).to(probs)
        parts = torch.split(probs, max(1, _POINTS // code.numel()))
        return torch.cat([self._shown(part, code) for part in parts])

    def _shown(self, probs: Tensor, code: Tensor) -> Tensor:
        label = probs.argmax(1, keepdim=True)
        own = _swapped(probs, label)  # as if the label were class 0, which the codebook is about
        distance = (own[:, None] - code).abs().sum(2)
        within = distance <= self.epsilon
        chosen = torch.where(within.any(1), within.int().argmax(1), distance.argmin(1))
        away = code[chosen] - own
        part = (self.epsilon / away.abs().sum(1, keepdim=True).clamp_min(1e-12)).clamp_max(1)
        return _swapped(own + part * away, label)


@lru_cache(maxsize=8)
def codebook(epsilon: float, classes: int) -> Tensor:
    """Codewords of class 0, in the order in which shadow answers called for them, [words, classes]."""
    draws = shadow_answers(_DRAWS, classes, stream(0, "modelguard-s"))
    draws = _swapped(draws, draws.argmax(1, keepdim=True))
    code: list[Tensor] = []
    while len(draws):
        code.append(draws[0])
        draws = draws[(draws - draws[0]).abs().sum(1) > epsilon]
    return torch.stack(code)


def _swapped(probs: Tensor, label: Tensor) -> Tensor:
    """The same rows with class 0 and `label` in each other's place."""
    first = probs[:, :1]
    return probs.scatter(1, label, first).scatter(1, torch.zeros_like(label), probs.gather(1, label))
