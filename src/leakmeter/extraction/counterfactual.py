"""Learning from counterfactuals: points beside the boundary whose two labels are known.

- `boundary`, ours: the counterfactual lies where two classes change places, so it has one label, a point just before
  it on the way has the other, and the boundary is held from both sides.
- `clamping`, the Counterfactual Clamping Attack (Dissanayake and Dutta, NeurIPS 2024): at a counterfactual the student
  is penalised, by the cross entropy to `k` less the entropy of `k`, only while it gives the other class less than `k`.
- `labels`, the plain baseline: counterfactuals are queries more, with their labels.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F  # noqa: N812
from pydantic import Field
from torch import Tensor, nn

from leakmeter.errors import NotApplicable
from leakmeter.extraction.base import AttackJob
from leakmeter.extraction.reader import Lesson, Reader
from leakmeter.extraction.targets import answered_logits, kl_loss
from leakmeter.oracle.answer import Answer
from leakmeter.oracle.view import View
from leakmeter.training.loop import Batch, Recipe
from leakmeter.victims.spec import VictimSpec

_BEFORE = 0.95  # of the way to a counterfactual: there the label is taken to be still the query's
_SOFTNESS = 3.0


class Counterfactuals(Reader):
    """Queries a pool through a view with `+counterfactual` and learns the boundary from both sides."""

    loss: Literal["boundary", "clamping", "labels"] = "boundary"
    k: float = Field(default=0.5, gt=0, lt=1)
    """Clamping: the probability that the other class must have at a counterfactual."""
    weight: float = Field(default=1.0, gt=0)
    """What counterfactuals weigh beside the answers."""
    recipe: Recipe = Recipe(steps=1500, batch=64, lr=5e-3, schedule="cyclic")

    def check(self, spec: VictimSpec, view: View) -> None:
        """Answers must come with counterfactuals."""
        super().check(spec, view)
        if view.explanation is None or view.explanation.name != "counterfactual":
            raise NotApplicable(f"'counterfactual' needs a view with +counterfactual, got '{view}'")

    def learn(self, student: nn.Module, x: Tensor, answer: Answer, job: AttackJob, spec: VictimSpec) -> None:
        """Says how many counterfactuals there were."""
        job.notes["counterfactuals"] = int((answer.columns["counterfactual_labels"] != answer.labels).sum())
        super().learn(student, x, answer, job, spec)

    def lesson(self, x: Tensor, answer: Answer, spec: VictimSpec) -> Lesson:  # noqa: ARG002
        """The answers, and what lies behind the boundary."""
        other = answer.columns["counterfactual_labels"]
        found = torch.where(_wide(other != answer.labels, x), answer.explanation.float(), x)
        soft = answer.view.kind != "labels"
        target = answered_logits(answer).float() if soft else F.one_hot(answer.labels, answer.classes).float()
        return Lesson((x, target, answer.labels, found, other), partial(self._loss, soft), self.recipe.batch)

    def _loss(self, soft: bool, model: nn.Module, batch: Batch, _: torch.Generator) -> Tensor:
        x, target, own, found, other = batch
        logits = model(x)
        answers = kl_loss(logits, target, _SOFTNESS) if soft else F.cross_entropy(logits, target)
        real = (other != own).float()
        if self.loss == "labels":
            beside = F.cross_entropy(model(found), other, reduction="none")
        elif self.loss == "clamping":
            beside = clamped(_margin(model(found), own, other), self.k)
        else:
            beside = self._boundary(model, batch)
        return answers + self.weight * (real * beside).mean()

    def _boundary(self, model: nn.Module, batch: Batch) -> Tensor:
        """The labels at the counterfactual and just before it: the boundary passes between."""
        x, _, own, found, other = batch
        before = torch.lerp(x, found, _wide(torch.full((len(x),), _BEFORE, device=x.device), x))
        behind = F.cross_entropy(model(found), other, reduction="none")
        return behind + F.cross_entropy(model(before), own, reduction="none")


def clamped(margin: Tensor, k: float) -> Tensor:
    """The published loss: the cross entropy of p = sigmoid(margin) to `k`, less the entropy of `k`; 0 once p > k."""
    entropy = -(k * math.log(k) + (1 - k) * math.log(1 - k))
    cross = F.binary_cross_entropy_with_logits(margin, torch.full_like(margin, k), reduction="none")
    return torch.where(margin <= math.log(k / (1 - k)), cross - entropy, torch.zeros_like(margin))


def _margin(logits: Tensor, own: Tensor, other: Tensor) -> Tensor:
    """By how much the other class leads, [n]."""
    return (logits.gather(1, other[:, None]) - logits.gather(1, own[:, None]))[:, 0]


def _wide(column: Tensor, x: Tensor) -> Tensor:
    return column.view(-1, *[1] * (x.dim() - 1))
