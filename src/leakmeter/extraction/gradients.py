"""Learning a model from its explanations (Milli et al. section 4): match explanations and answers together.

The loss is the paper's `ℓ_J = ℓ_G + λ ℓ_M`, with both terms made free of units, so that one λ serves every victim:

- `ℓ_G` is the squared error of the explanations over the mean square of those shown: 1 for a constant student. A
  student's explanation is made as the server makes its own (`matching.py`).
- `ℓ_M` is the cross-entropy on the answers (less the answers' own entropy), softened by the spread of the logits
  answered: where a victim is sure of itself, plain cross-entropy would no longer see its logits.

Two things make a step cheap and well conditioned. Instead of one backward pass a class, a step draws one random
combination `a` of the class scores for each row and compares one gradient, of `<a, scores>`: without bias, at the cost
of a single double backward pass. And gradients of probabilities become gradients of log-probabilities,
`∇log p = ∇p / p`, because the former vanish where the victim is sure.

Occlusion needs none of this: what a score fell by is the answer to the input without that part, for nothing.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from leakmeter.errors import NotApplicable
from leakmeter.extraction.matching import Matching, matching
from leakmeter.extraction.reader import Lesson, Reader, answers_alone, spread
from leakmeter.extraction.targets import answered_scores, kl_loss, two_columns
from leakmeter.oracle.answer import Answer
from leakmeter.oracle.explanations.baseline import baseline, players
from leakmeter.oracle.explanations.occlusion import Occlusion
from leakmeter.oracle.view import View
from leakmeter.training.loop import Batch, Recipe
from leakmeter.victims.spec import VictimSpec

_WHOLE, _PART = 0.1, 1.0  # λ
_MANY = 128  # rows of a batch where one query tells many answers


class Gradients(Reader):
    """Queries a pool through a view with an explanation and matches values and explanations."""

    single_score: ClassVar[bool] = True
    lam: float | None = Field(default=None, ge=0)
    """λ: what the answers weigh beside the explanations; None: 0.1 beside gradients, 1 beside what leaves more open."""
    recipe: Recipe = Recipe(steps=1000, batch=16, lr=5e-3, schedule="cyclic")

    def check(self, spec: VictimSpec, view: View) -> None:
        """Answers must come with explanations that say how much features matter."""
        super().check(spec, view)
        if view.explanation is None:
            raise NotApplicable(
                f"expected a view with explanations, got '{view}'; "
                f"ask through '{view}+gradient', or use the attack 'surrogate'"
            )
        if not view.explanation.a_map:
            raise NotApplicable(f"expected a view whose explanations are maps, got '{view}'; use 'counterfactual'")

    def lesson(self, x: Tensor, answer: Answer, spec: VictimSpec) -> Lesson:
        """Answers and explanations, matched together."""
        if (told := occluded(x, answer, spec)) is not None:
            return answers_alone(*told, batch=max(self.recipe.batch, _MANY))
        shown = matching(x, answer, spec)
        loss = partial(self._loss, shown, spread(answer), self._weight(answer))
        return Lesson(self._filled(x, answered_scores(answer), torch.arange(len(x))), loss, self.recipe.batch)

    def _filled(self, *columns: Tensor) -> Batch:
        """Very few queries fill the batch several times over: each copy of a row meets another combination."""
        times = max(1, self.recipe.batch // len(columns[0]))
        return tuple(column.repeat(times, *[1] * (column.dim() - 1)) for column in columns)

    def _weight(self, answer: Answer) -> float:
        """λ: lower where explanations fix nearly everything, higher where they leave more open."""
        if self.lam is not None:
            return self.lam
        explanation = answer.view.explanation
        assert explanation is not None
        return _WHOLE if explanation.name == "gradient" and not answer.view.protections else _PART

    @staticmethod
    def _loss(
        shown: Matching, softness: float, lam: float, model: nn.Module, batch: Batch, draws: torch.Generator
    ) -> Tensor:
        x, answers, rows = batch
        logits, error = shown.loss(model, x, rows, draws)
        membership = kl_loss(two_columns(logits), answers, softness) / softness**2
        return error.to(membership) + lam * membership


def occluded(x: Tensor, answer: Answer, spec: VictimSpec) -> tuple[Tensor, Answer] | None:
    """All inputs whose answers an occlusion map tells, and these answers; None where it does not tell them whole."""
    view, explanation = answer.view, answer.view.explanation
    whole = view.kind in ("probs", "logits") and view.decimals is None and answer.classes > 1
    if not isinstance(explanation, Occlusion) or view.protections or not whole:
        return None
    nothing, of = baseline(spec, None).to(x), players(spec, explanation.size)
    falls, scores = answer.explanation, answer.columns[view.kind]
    inputs, answers = [x], [scores]
    for part in range(int(of.max()) + 1):
        inputs.append(torch.where(of == part, nothing, x))
        answers.append(scores - falls[:, :, of == part][:, :, 0].to(scores))
    told = torch.cat(answers)
    shown = {str(view.kind): told.clamp(0, 1) if view.kind == "probs" else told}
    return torch.cat(inputs), Answer(View(view.kind), answer.classes, shown)
