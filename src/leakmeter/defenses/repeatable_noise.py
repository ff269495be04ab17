"""Noise that is the same whenever the input is: asking again and averaging gains nothing."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from leakmeter.defenses.base import Defense, probabilities
from leakmeter.defenses.noise import Noise
from leakmeter.seeds import stream
from leakmeter.victims.victim import Question, Responder


@dataclass(frozen=True)
class RepeatableNoise(Noise):
    """As `noise:SIGMA`, but drawn from a digest of the input. Keeps the label.

    An input that differs in its last bit has noise of its own: averaging over such neighbours is what is left to an
    attacker, who pays for each. A server adds a secret of its own to the digest.
    """

    name: ClassVar[str] = "repeatable-noise"

    def respond(self, victim: Responder, x: Tensor, question: Question) -> Tensor:
        """The noisy distributions, row by row."""
        outputs = victim.respond(x, question)
        probs = probabilities(victim, outputs)
        rows = zip(torch.split(probs, 1), torch.split(x, 1), strict=True)
        return torch.cat([self.change(row, _noise_of(each)) for row, each in rows]).to(outputs.dtype)

    undo = Defense.undo


def _noise_of(x: Tensor) -> torch.Generator:
    content = (x.detach().cpu() + 0.0).numpy().tobytes()  # + 0.0: one zero
    return stream(0, "repeatable noise", hashlib.sha256(content).hexdigest())
