"""Trials: candidates for a copy, how well each foresaw answers held out, and which is the best.

Of small pictures they are compared by surprise, which tells good from better by far fewer answers than counting the
labels that were named right.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from leakmeter.evaluation.score import predict
from leakmeter.extraction.students.augment import Augmentation
from leakmeter.extraction.students.reading import Reading
from leakmeter.extraction.targets import answered_probs
from leakmeter.oracle.answer import Answer, to_labels

AGAIN = 2  # candidates at least compared again when there are more answers
_TEMPERATURES = 2.0 ** torch.linspace(-4, 8, 37).double()


@dataclass(frozen=True)
class Candidate:
    """One way to make a copy."""

    student: str
    reading: Reading
    augmentation: Augmentation

    def __str__(self) -> str:
        return f"{self.student}, {self.reading}" + ("" if self.augmentation == "none" else f", {self.augmentation}")


@dataclass(frozen=True, eq=False)
class Tried:
    """What candidates that learned the other answers, in the mean, came to on those held out."""

    candidates: tuple[Candidate, ...]
    held_out: float
    """How often they agreed."""
    model: nn.Module
    surprise: Tensor | None = None
    """Of every answer how far their probabilities were from it; None: agreement alone decides."""

    @property
    def worth(self) -> float:
        """The more the better."""
        return self.held_out if self.surprise is None else -float(self.surprise.mean())

    def __str__(self) -> str:
        return " + ".join(map(str, self.candidates))


@dataclass(frozen=True, eq=False)
class Parted:
    """Answers, parted into what is learned and what is held out."""

    x: Tensor
    answer: Answer
    learned: Tensor
    held: Tensor
    graded: bool = False
    """Whether candidates are compared by how much the answers held out surprise them."""

    def tried(self, candidates: tuple[Candidate, ...], model: nn.Module) -> Tried:
        """What a model came to; each class that was answered counts the same."""
        labels, outputs = self.answer.labels[self.held], predict(model, self.x[self.held])
        weight = 1 / labels.bincount()[labels].double()
        agreement = float(((to_labels(outputs) == labels).double() * weight).sum() / weight.sum())
        if not self.graded:
            return Tried(candidates, agreement, model)
        weight /= weight.mean()
        return Tried(candidates, agreement, model, weight * surprises(outputs, self.answer.rows(self.held), weight))

    def ranked(self, trials: list[Tried]) -> list[Tried]:
        """Best first; within one standard error the one given first, which is the steadier, simpler or likelier."""
        best = max(trials, key=lambda trial: trial.worth)
        first = next(trial for trial in trials if not self.better(best, trial, 1.0))
        order = sorted(trials, key=lambda trial: -trial.worth)
        return [first, *(trial for trial in order if trial is not first)]

    def better(self, one: Tried, other: Tried, errors: float) -> bool:
        """Whether one is better than the other by more than so many standard errors."""
        if one.surprise is None or other.surprise is None:
            return one.held_out > other.held_out + errors * self.error(max(one.held_out, other.held_out))
        less = other.surprise - one.surprise
        return float(less.mean()) > errors * float(less.std(correction=0)) / math.sqrt(len(less))

    def error(self, agreement: float) -> float:
        """The standard error of an agreement."""
        return math.sqrt(agreement * (1 - agreement) / len(self.held))


def surprises(outputs: Tensor, answer: Answer, weight: Tensor) -> Tensor:
    """Of each answer its divergence from what was foreseen, at the temperature that suits all of them best.

    Students of labels are far too sure and all the same name the right ones: how sure is left out of it.
    """
    wanted = answered_probs(answer).double()
    rows = torch.stack([(wanted * (outputs.double() / t).log_softmax(1)).sum(1) for t in _TEMPERATURES])
    best = int((rows * weight).mean(1).argmax())
    surprise: Tensor = -torch.special.entr(wanted).sum(1) - rows[best]
    return surprise


def close(ranking: list[Tried], doubt: float) -> list[Tried]:
    """Those to compare again: the two best single candidates, and all that few answers left near the best."""
    single = [trial for trial in ranking if len(trial.candidates) == 1]
    best = max(trial.held_out for trial in single)
    return single[: max(AGAIN, sum(trial.held_out >= best - doubt for trial in single))]
