"""Adaptive Misinformation: inputs the model is unsure of get wrong answers (Kariyappa and Qureshi 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from leakmeter.defenses.base import Defense, probabilities
from leakmeter.errors import UsageError
from leakmeter.seeds import stream
from leakmeter.victims.victim import Question, Responder

_STEEP = 1000  # the paper's ν: answers change over within about 1/ν of tau
_SHARP = 4.0


@dataclass(frozen=True)
class Misinformation(Defense):
    """Shows (1 - α) y + α ŷ with α = σ(1000 (tau - max y)): the truth above confidence tau, misinformation below.

    The paper trains a network for ŷ to name wrong classes. Here ŷ is a fixed random linear function of the input, made
    certain of itself and barred from the victim's label: wrong, repeatable and smooth, with nothing to train.
    """

    name: ClassVar[str] = "misinformation"
    tau: float

    def __post_init__(self) -> None:
        if not 0 < self.tau <= 1:
            raise UsageError(f"expected TAU of misinformation:TAU above 0 and up to 1, got {self.tau:g}")

    def respond(self, victim: Responder, x: Tensor, question: Question) -> Tensor:
        """The mixture for each input."""
        outputs = victim.respond(x, question)
        probs = probabilities(victim, outputs)
        return self.mixed(probs, _scores(x, probs.shape[1]).to(probs)).to(outputs.dtype)

    def change(self, probs: Tensor, noise: torch.Generator) -> Tensor:
        """The mixture for inputs drawn at random: how an attacker imagines it."""
        return self.mixed(probs, torch.randn(probs.shape, generator=noise, dtype=probs.dtype).to(probs.device))

    def mixed(self, probs: Tensor, scores: Tensor) -> Tensor:
        """What is shown, given the misinformation's scores of the classes."""
        highest, label = probs.max(1, keepdim=True)
        wrong = (_SHARP * scores).scatter(1, label, -torch.inf).softmax(1)
        weight = torch.sigmoid(_STEEP * (self.tau - highest))
        return (1 - weight) * probs + weight * wrong


def _scores(x: Tensor, classes: int) -> Tensor:
    """A standard normal for each class, the same whenever the input is the same."""
    rows = x.flatten(1).double()
    rows = rows / rows.norm(dim=1, keepdim=True).clamp_min(1e-12)
    weights = torch.randn(rows.shape[1], classes, generator=stream(0, "misinformation"), dtype=torch.float64)
    scores: Tensor = rows @ weights.to(rows.device)
    return scores
