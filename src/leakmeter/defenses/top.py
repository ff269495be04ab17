"""Top-k: the k best classes keep their probabilities, the others share what is left evenly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from leakmeter.defenses.base import Defense
from leakmeter.errors import UsageError
from leakmeter.oracle.answer import Answer, present
from leakmeter.oracle.view import View
from leakmeter.victims.victim import Responder


@dataclass(frozen=True)
class Top(Defense):
    """Shows all classes, but tells only the k best apart.

    What is shown of those is true, the rest is their mean: the answer stays a distribution without being scaled up,
    and since no hidden class exceeds a shown one, neither does the mean. Keeps the label.
    """

    name: ClassVar[str] = "top"
    keeps_label: ClassVar[bool] = True
    k: int

    def __post_init__(self) -> None:
        if self.k < 1:
            raise UsageError(f"expected K of top:K to be at least 1, got {self.k}")

    def check(self, victim: Responder) -> None:
        """Needs probabilities, of k classes at least."""
        super().check(victim)
        if self.k > victim.spec.classes:
            raise UsageError(f"expected K of the defense top:K to be at most {victim.spec.classes}, got {self.k}")

    def change(self, probs: Tensor, noise: torch.Generator) -> Tensor:  # noqa: ARG002
        """The hidden classes' probabilities, each replaced by their mean."""
        # Of equal classes the first stays shown: it is the one argmax names.
        order = probs.argsort(dim=1, descending=True, stable=True)
        hidden, least = order[:, self.k :], probs.gather(1, order[:, self.k - 1 : self.k])
        if hidden.shape[1] == 0:
            return probs
        mean = torch.minimum(probs.gather(1, hidden).mean(1, keepdim=True), least)
        return probs.scatter(1, hidden, mean.expand_as(hidden))

    def undo(self, answer: Answer) -> Answer:
        """Believes the k best and takes the others as hidden, as under the view `top:K`."""
        view = View("top", k=self.k)
        return Answer(view, answer.classes, present(view, answer.probs, "probs"))
