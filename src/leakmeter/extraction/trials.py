"""Trials: candidates for a copy, how often each agreed with answers held out, and which is the best."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor, nn

from leakmeter.evaluation.score import predict
from leakmeter.extraction.students.augment import Augmentation
from leakmeter.extraction.students.reading import Reading
from leakmeter.oracle.answer import Answer, to_labels

AGAIN = 2  # candidates at least compared again when there are more answers


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
    """How often candidates that learned the other answers agreed, in the mean, with those held out."""

    candidates: tuple[Candidate, ...]
    held_out: float
    model: nn.Module

    def __str__(self) -> str:
        return " + ".join(map(str, self.candidates))


@dataclass(frozen=True, eq=False)
class Parted:
    """Answers, parted into what is learned and what is held out."""

    x: Tensor
    answer: Answer
    learned: Tensor
    held: Tensor

    def agreement(self, model: nn.Module) -> float:
        """How often a model names the class of an answer held out, each class that was answered counting the same."""
        labels = self.answer.labels[self.held]
        same = (to_labels(predict(model, self.x[self.held])) == labels).double()
        weight = 1 / labels.bincount()[labels].double()
        return float((same * weight).sum() / weight.sum())

    def ranked(self, trials: list[Tried]) -> list[Tried]:
        """Best first; within one standard error the one given first, which is the steadier, simpler or likelier."""
        return ranked(trials, self.error(max(trial.held_out for trial in trials)))

    def error(self, agreement: float) -> float:
        """The standard error of an agreement."""
        return math.sqrt(agreement * (1 - agreement) / len(self.held))


def ranked(trials: list[Tried], error: float = 0.0) -> list[Tried]:
    """The trials, best first; of those that differ by no more than an error from the best, the one tried first."""
    order = sorted(trials, key=lambda trial: -trial.held_out)
    first = next(trial for trial in trials if trial.held_out >= order[0].held_out - error)
    return [first, *(trial for trial in order if trial is not first)]


def close(ranking: list[Tried], doubt: float) -> list[Tried]:
    """Those to compare again: the two best single candidates, and all that few answers left near the best."""
    single = [trial for trial in ranking if len(trial.candidates) == 1]
    best = max(trial.held_out for trial in single)
    return single[: max(AGAIN, sum(trial.held_out >= best - doubt for trial in single))]
