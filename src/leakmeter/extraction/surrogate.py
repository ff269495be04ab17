"""Distillation from a pool of queries (DFME appendix A): ask each once, train with the temperature-scaled KL.

Labels are learned with cross entropy: softened ones would make a copy that names the classes slightly better, and whose
gradients lead an attacker astray.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from pydantic import Field
from torch import Tensor, nn

from leakmeter.extraction.base import AttackJob
from leakmeter.extraction.pool import PoolAttack
from leakmeter.extraction.students.reading import seen_logits
from leakmeter.extraction.targets import answered_logits, answered_probs, kl_loss
from leakmeter.oracle.answer import Answer
from leakmeter.seeds import derive
from leakmeter.training.loop import Batch, Recipe, fit
from leakmeter.victims.spec import VictimSpec


class Surrogate(PoolAttack):
    """Queries a pool and distils the answers into a student."""

    temperature: float = Field(default=3.0, gt=0)
    """The paper tries 1, 3, 5 and 10."""
    recipe: Recipe = Recipe(steps=3000, batch=200, lr=2e-3, schedule="cyclic")

    def learn(self, student: nn.Module, x: Tensor, answer: Answer, job: AttackJob, spec: VictimSpec) -> None:  # noqa: ARG002
        """Fits the student to the answers."""
        labels = answer.view.kind == "labels"
        fit(
            student,
            (x, answered_probs(answer) if labels else _logits(answer)),
            _label_loss if labels else self._loss,
            self.recipe,
            seed=derive(job.seed, "fit", len(x)),
            progress=job.progress,
            title=f"student at {len(x):,} queries",
            checkpoint=job.checkpoint(f"student-{len(x)}"),
        )

    def _loss(self, model: nn.Module, batch: Batch, _: torch.Generator) -> Tensor:
        x, target = batch
        return kl_loss(model(x), target, self.temperature)


def _logits(answer: Answer) -> Tensor:
    """Where all probabilities seem to be shown, a zero may be one that a defense rounded or cut without saying so."""
    return seen_logits(answer) if answer.view.tells_logits else answered_logits(answer).float()


def _label_loss(model: nn.Module, batch: Batch, _: torch.Generator) -> Tensor:
    x, one_hot = batch
    return F.cross_entropy(model(x), one_hot)
