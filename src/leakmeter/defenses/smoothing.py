"""Randomised smoothing: the answer is a vote over noisy copies of the question (STN, Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from leakmeter.defenses.base import Defense, labels_of, softened
from leakmeter.errors import NotApplicable, UsageError
from leakmeter.oracle.answer import Answer
from leakmeter.victims.victim import Question, Responder


@dataclass(frozen=True)
class Smoothing(Defense):
    """Adds N(0, sigma²) to every input feature n times and shows which part of the copies fell into each class.

    As in the algorithm, copies are not clamped to the box: the certificate is about unclamped noise. The label is the
    smoothed classifier's, not the victim's. The server computes n answers for a query; the client pays for one.
    """

    name: ClassVar[str] = "smoothing"
    sigma: float
    n: int

    def __post_init__(self) -> None:
        if self.sigma <= 0 or self.n < 1:
            raise UsageError(f"expected a positive SIGMA and at least one copy in smoothing:SIGMA,N, got '{self}'")

    def check(self, victim: Responder) -> None:
        """Labels are enough; a remote victim would see n times what is counted."""
        if victim.spec.classes == 1:
            raise NotApplicable(f"the defense {self} needs a victim of two classes or more, got a single score")
        if victim.remote:
            raise NotApplicable(
                f"the defense {self} would ask a remote victim {self.n} times a query; smooth on its side"
            )

    def respond(self, victim: Responder, x: Tensor, question: Question) -> Tensor:
        """Shares of the votes, of as many copies at once as the victim takes."""
        votes = torch.zeros(len(x), victim.spec.classes, dtype=torch.get_default_dtype())
        for copies in torch.split(torch.arange(self.n), max(1, victim.batch // len(x))):
            shape = (len(copies), *x.shape)
            shift = torch.randn(shape, generator=question.noise, dtype=x.dtype).to(x.device)
            labels = labels_of(victim, (x + self.sigma * shift).flatten(0, 1), question).view(len(copies), -1)
            votes.scatter_add_(1, labels.T.cpu(), votes.new_ones(len(x), len(copies)))
        return votes / self.n

    def undo(self, answer: Answer) -> Answer:
        """Half a vote more for every class (Jeffreys): no votes in n does not mean never."""
        return softened(answer, 0.5 / self.n)
