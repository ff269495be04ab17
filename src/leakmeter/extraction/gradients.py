"""Learning a model from its explanations (Milli et al. section 4): match input gradients and answers together.

The loss is the paper's `ℓ_J = ℓ_G + λ ℓ_M`, with both terms made free of units, so that one λ serves every victim:

- `ℓ_G` is the squared error of the gradients over the mean square of the gradients shown: 1 for a constant student.
- `ℓ_M` is the cross-entropy on the answers (less the answers' own entropy), softened by the spread of the logits
  answered: where a victim is sure of itself, plain cross-entropy would no longer see its logits.

Two things make a step cheap and well conditioned. Instead of one backward pass a class, a step draws one random
combination `a` of the class scores for each row and compares one gradient, of `<a, scores>`: without bias, at the cost
of a single double backward pass. And gradients of probabilities become gradients of log-probabilities,
`∇log p = ∇p / p`, because the former vanish where the victim is sure.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import torch
import torch.nn.functional as F  # noqa: N812
from pydantic import Field
from torch import Tensor, nn

from leakmeter.errors import NotApplicable
from leakmeter.extraction.base import AttackJob
from leakmeter.extraction.pool import PoolAttack
from leakmeter.extraction.targets import answered_logits, kl_loss
from leakmeter.oracle.answer import Answer
from leakmeter.oracle.view import View
from leakmeter.seeds import derive
from leakmeter.training.loop import Batch, Recipe, fit
from leakmeter.victims.spec import VictimSpec

_FLOOR = 1e-30  # the gradient of a probability below this loses digits in single precision
_LEAST_SPREAD = 1e-3
_ROUNDING = 10  # steps of rounding a probability must be worth before anything is divided by it


class Gradients(PoolAttack):
    """Queries a pool through a view with `+gradient` or `+smoothgrad` and matches values and gradients."""

    reads_explanations: ClassVar[bool] = True
    single_score: ClassVar[bool] = True
    lam: float = Field(default=0.1, ge=0)
    """λ: what the answers weigh beside the gradients."""
    recipe: Recipe = Recipe(steps=1000, batch=16, lr=5e-3, schedule="cyclic")

    def check(self, spec: VictimSpec, view: View) -> None:
        """Answers must come with explanations."""
        super().check(spec, view)
        if view.explanation is None:
            raise NotApplicable(
                f"expected a view with explanations, got '{view}'; "
                f"ask through '{view}+gradient', or use the attack 'surrogate'"
            )

    def learn(self, student: nn.Module, x: Tensor, answer: Answer, job: AttackJob) -> None:
        """Fits the student to answers and explanations."""
        shown, answers = Explanations(answer), _answers(answer)
        softness = float(answers.std().clamp_min(_LEAST_SPREAD))
        job.notes["softness"] = softness
        fit(
            student,
            self._filled(x, answers, torch.arange(len(x))),
            partial(self._loss, shown, softness),
            self.recipe,
            seed=derive(job.seed, "fit", len(x)),
            progress=job.progress,
            title=f"student at {len(x):,} explained queries",
            checkpoint=job.checkpoint(f"student-{len(x)}"),
        )

    def _filled(self, *columns: Tensor) -> Batch:
        """Very few queries fill the batch several times over: each copy of a row meets another combination."""
        times = max(1, self.recipe.batch // len(columns[0]))
        return tuple(column.repeat(times, *[1] * (column.dim() - 1)) for column in columns)

    def _loss(
        self, shown: Explanations, softness: float, model: nn.Module, batch: Batch, draws: torch.Generator
    ) -> Tensor:
        x, answers, rows = batch
        logits = model(x.requires_grad_())
        a = shown.draw(rows, draws)
        gradient = torch.autograd.grad((a * shown.scores(logits)).sum(), x, create_graph=True)[0]
        membership = kl_loss(_two_columns(logits), answers, softness) / softness**2
        return shown.error(gradient, a, rows) + self.lam * membership


class Explanations:
    """The gradients as given, and what makes of them gradients of the scores a student is compared by.

    The scores are logits where logits are shown and log-probabilities where probabilities are. Where only a label is
    shown, the probability to divide by is unknown: there the directions of the gradients are compared.
    """

    def __init__(self, answer: Answer) -> None:
        self.gradients = answer.gradients
        self.of_logits = answer.view.kind == "logits" or answer.classes == 1
        self.directions = answer.view.kind == "labels" and not self.of_logits
        self.weights = self._weights(answer)
        self.power = self._power()

    def draw(self, rows: Tensor, draws: torch.Generator) -> Tensor:
        """A random combination of the scores shown for each row, [n, classes].

        Where every class is shown it sums to zero: it then sees differences of logits, and nothing of the constant that
        softmax removes.
        """
        known = (self.weights[rows.cpu()] > 0).to(rows.device)
        a = torch.randn(known.shape, generator=draws, device=rows.device) * known
        return a - a.mean(1, keepdim=True) * self._whole(known)

    def scores(self, logits: Tensor) -> Tensor:
        """What the student is compared by, [n, classes]."""
        return logits if self.of_logits else logits.log_softmax(1)

    def error(self, gradient: Tensor, a: Tensor, rows: Tensor) -> Tensor:
        """ℓ_G: how far `gradient` is from that of `<a, scores>` shown for `rows`, relative to the mean square shown."""
        wanted = self.combine(a, rows).to(gradient)
        if self.directions:
            return 2 - 2 * torch.cosine_similarity(gradient.flatten(1), wanted.flatten(1)).mean()
        return _squares(gradient - wanted).mean() / self.power

    def combine(self, a: Tensor, rows: Tensor) -> Tensor:
        """`Σ_c a_c ∇score_c` of some rows, class by class: never more than rows × features at once."""
        a, rows = a.cpu(), rows.cpu()
        total = torch.zeros(())
        for c in range(self.weights.shape[1]):
            total = total + _scaled(self.gradients[rows, c], a[:, c] * self.weights[rows, c])
        return total

    def _power(self) -> float:
        """The mean of `|combine(a)|²` over `draw` and the rows."""
        n, classes = self.weights.shape
        total = torch.zeros(())
        for c in range(classes):
            total = total + _squares(_scaled(self.gradients[:, c], self.weights[:, c]))
        common = _squares(self.combine(torch.ones(n, classes), torch.arange(n))) / classes
        power = (total - common * self._whole(self.weights > 0)[:, 0]).mean()
        return float(power.clamp_min(torch.finfo(power.dtype).tiny))

    @staticmethod
    def _whole(known: Tensor) -> Tensor:
        return known.all(1, keepdim=True) & (known.shape[1] > 1)

    def _weights(self, answer: Answer) -> Tensor:
        shown = answer.shown.float()
        if self.of_logits or self.directions:
            return shown
        decimals = answer.view.decimals
        least = _FLOOR if decimals is None else _ROUNDING * 10.0**-decimals
        return torch.where(answer.probs >= least, shown / answer.probs.clamp_min(least), 0)


def _scaled(rows: Tensor, factors: Tensor) -> Tensor:
    return rows * factors.view(-1, *[1] * (rows.dim() - 1))


def _squares(rows: Tensor) -> Tensor:
    return rows.flatten(1).square().sum(1)


def _answers(answer: Answer) -> Tensor:
    if answer.classes > 1:
        return answered_logits(answer).float()
    score = answer.logits if answer.view.kind == "logits" else answer.labels[:, None] * 2 - 1
    return _two_columns(score.float())


def _two_columns(logits: Tensor) -> Tensor:
    """A single score is a logit against 0."""
    return logits if logits.shape[1] > 1 else F.pad(logits, (0, 1))
