"""Attacks that read explanations: the answers are learned first, then the explanations beside them.

Many explanations leave open what the answers decide: signs (sizes alone, ranks), scale (signs alone, reasons) and
constants. A student that has learned the answers is where these are right, and goes on from there.

Whoever is shown an explanation may ignore it. Some of the answers are held out; of two students that learned the others
one reads the explanations while the other learns the answers on, and where the reader is further from those held out,
of few answers clearly further, explanations are left aside and the answers learned on.
"""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from leakmeter.errors import Inconclusive
from leakmeter.evaluation.score import predict
from leakmeter.extraction.base import AttackJob
from leakmeter.extraction.pool import USUAL, PoolAttack
from leakmeter.extraction.students.scaled import by_feature
from leakmeter.extraction.targets import answered_scores, kl_loss, two_columns
from leakmeter.oracle.answer import Answer
from leakmeter.oracle.explanations.protections import Noise
from leakmeter.seeds import derive, stream
from leakmeter.training.loop import Batch, Loss, Recipe, fit
from leakmeter.victims.spec import VictimSpec

_LEAST, _SHARE, _MOST = 8, 3, 250  # answers from which one in so many is held out, and the most that are
_FEW, _CLEARLY = (
    30,
    4,
)  # answers below which those held out tell little: only a reader so many times as far is not heard
_LOUD = 1  # noise above this, in sizes of the explanation: it has no such credit
_SHORTER = 2  # a trial takes this fraction of the steps
_WIDE = 64  # rows of a batch of answers alone, which cost little
_LEAST_SPREAD = 1e-3
_WIDER, _SMALL = "lenet:24", 4096  # the student of pictures of so many numbers
_FEWER = 3  # times fewer steps of it


@dataclass(frozen=True, eq=False)
class Lesson:
    """What a student learns from: rows, and how wrong it is about some of them."""

    data: Batch
    loss: Loss
    batch: int


class Reader(PoolAttack):
    """Queries a pool, learns the answers, then what explains them."""

    reads_explanations: ClassVar[bool] = True
    pool: str | Tensor = USUAL
    joint: bool = False
    """Both from the start, and never without explanations: as published."""
    recipe: Recipe

    @abstractmethod
    def lesson(self, x: Tensor, answer: Answer, spec: VictimSpec) -> Lesson:
        """What answers and explanations together teach."""

    def copied_into(self, spec: VictimSpec) -> str:
        """Of pictures a wide network: explanations tell so much of each answer that a narrow one learns it badly."""
        wide = len(spec.input_shape) == 3 and spec.features <= _SMALL
        return self.student or (_WIDER if wide else super().copied_into(spec))

    def lasting(self, spec: VictimSpec) -> Recipe:
        """How it learns: as given; else the wide network has fewer steps, each of which costs more and teaches more."""
        chosen = self.student is None and "recipe" not in self.model_fields_set
        return _fewer(self.recipe, _FEWER) if chosen and self.copied_into(spec) == _WIDER else self.recipe

    def learn(self, student: nn.Module, x: Tensor, answer: Answer, job: AttackJob, spec: VictimSpec) -> None:
        """Fits the student to the answers, and to the explanations if that helps."""
        recipe = self.lasting(spec)
        with by_feature(spec, x, student, job.device) as network:
            ignored = not self.joint and len(x) >= _LEAST and not self._helps(network, x, answer, job, spec)
            if not self.joint:
                self._learn(network, answers_alone(x, answer), recipe, job, "answers", len(x))
            before = copy.deepcopy(network.state_dict())
            try:
                lesson = answers_alone(x, answer) if ignored else self.lesson(x, answer, spec)
                self._learn(network, lesson, recipe, job, "student", len(x))
            except Inconclusive:  # it diverged: what the answers taught is left
                if ignored or self.joint:
                    raise
                ignored = True
                network.load_state_dict(before)
            if ignored:
                job.notes["explanations ignored at"] = [*job.notes.get("explanations ignored at", []), len(x)]

    def _helps(self, network: nn.Module, x: Tensor, answer: Answer, job: AttackJob, spec: VictimSpec) -> bool:
        """Whether a student that reads is about as near to answers it has not seen as one that learns answers on."""
        order = torch.randperm(len(x), generator=stream(job.seed, "held out", len(x)))
        many = min(_MOST, len(x) // _SHARE)
        held, rest = order[:many], order[many:]
        quiet, shorter = replace(job, checkpoints=None), _fewer(self.lasting(spec), _SHORTER)
        alone, lesson = answers_alone(x[rest], answer.rows(rest)), self.lesson(x[rest], answer.rows(rest), spec)
        blind = copy.deepcopy(network)
        self._learn(blind, alone, shorter, quiet, "trial", len(x))
        reader = copy.deepcopy(blind)
        try:
            self._learn(reader, lesson, shorter, quiet, "trial with explanations", len(x))
        except Inconclusive:  # it diverged
            return False
        self._learn(blind, alone, shorter, quiet, "trial without", len(x))
        read, ignored = (_distance(each, x[held], answer.rows(held)) for each in (reader, blind))
        loud = any(isinstance(each, Noise) and each.share > _LOUD for each in answer.view.protections)
        return read <= ignored * (_CLEARLY if len(x) < _FEW and not loud else 1)

    @staticmethod
    def _learn(network: nn.Module, lesson: Lesson, recipe: Recipe, job: AttackJob, name: str, n: int) -> None:
        fit(
            network,
            lesson.data,
            lesson.loss,
            recipe.model_copy(update={"batch": lesson.batch}),
            seed=derive(job.seed, "fit", name, n),
            progress=job.progress,
            title=f"{name} at {n:,} queries",
            checkpoint=job.checkpoint(f"{name}-{n}"),
        )


def answers_alone(x: Tensor, answer: Answer, batch: int = _WIDE) -> Lesson:
    """What the answers teach by themselves."""
    softness = spread(answer)

    def loss(model: nn.Module, rows: Batch, _: torch.Generator) -> Tensor:
        return kl_loss(two_columns(model(rows[0])), rows[1], softness) / softness**2

    return Lesson((x, answered_scores(answer)), loss, batch)


def spread(answer: Answer) -> float:
    """That of the logits answered: where a victim is sure of itself, plain cross-entropy would no longer see them."""
    return float(answered_scores(answer).std().clamp_min(_LEAST_SPREAD))


def _distance(model: nn.Module, x: Tensor, answer: Answer) -> float:
    """1 less the cosine of all centred logits: which class leads, by how much more than elsewhere, at any scale."""
    mine, theirs = two_columns(predict(model, x).cpu().float()), answered_scores(answer)
    one, other = ((logits - logits.mean(1, keepdim=True)).flatten() for logits in (mine, theirs))
    return 1 - float(torch.cosine_similarity(one, other, dim=0))


def _fewer(recipe: Recipe, times: float) -> Recipe:
    whole = {"steps": recipe.steps, "epochs": recipe.epochs}
    return recipe.model_copy(update={name: math.ceil(n / times) for name, n in whole.items() if n is not None})
