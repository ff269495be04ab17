"""Shapley values against a baseline: exact for ensembles of trees, sampled for all else (Lundberg and Lee 2017)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from leakmeter.errors import UsageError
from leakmeter.models.trees.shapley import tree_shapley
from leakmeter.oracle.explanations.base import Explanation, Scores
from leakmeter.oracle.explanations.baseline import baseline, count, players, scores_of_parts, spread
from leakmeter.victims.spec import VictimSpec
from leakmeter.victims.victim import Responder


@dataclass(frozen=True)
class Shapley(Explanation):
    """The mean over orders in which parts come in of what each adds when it comes.

    Zero, or what the box has nearest, stands for a part that is not in yet. Of a victim made of trees the values are
    exact (TreeSHAP against that one baseline), and explain what the trees add up to: log-odds of boosted ones,
    probabilities of forests. Of others `samples` random orders are walked, each forwards and backwards, and a part is a
    column or one of seven squares a side of a picture.
    """

    name: ClassVar[str] = "shap"
    column: ClassVar[str] = "attributions"
    needs_gradients: ClassVar[bool] = False
    sampled: ClassVar[bool] = True
    samples: int = 5

    def __post_init__(self) -> None:
        if not 1 <= self.samples <= 10**6:
            raise UsageError(f"expected shap:SAMPLES with a sample or more, got '{self}'")

    def work(self, victim: Responder) -> int:
        """One pass through the trees; else the two ends, and all between them on each way."""
        if getattr(victim, "trees", None) is not None:
            return 1
        return 2 + 2 * self.samples * (count(victim.spec) - 1)

    def explain(self, x: Tensor, scores: Scores) -> Tensor:
        """What each feature adds, [n, shown, *input_shape]; those of one part share its value evenly."""
        trees = getattr(scores.responder, "trees", None)
        if trees is None:
            return spread(self._sampled(x, scores), players(scores.spec), evenly=True)
        values = tree_shapley(trees, x, baseline(scores.spec, None)).to(x)
        if scores.classes is None:
            return values
        chosen = scores.classes.to(values.device)[:, :, None].expand(-1, -1, values.shape[2])
        return values.gather(1, chosen)

    def fewer(self, spec: VictimSpec) -> Explanation:  # noqa: ARG002
        """One order: the mean is the same."""
        return replace(self, samples=1)

    def _sampled(self, x: Tensor, scores: Scores) -> Tensor:
        parts = count(scores.spec)
        ends = scores_of_parts(x, torch.tensor([[False], [True]]).expand(2, parts), scores)
        total = torch.zeros(())
        for _ in range(self.samples):
            order = torch.randperm(parts, generator=scores.noise)
            for way in (order, order.flip(0)):
                total = total + _walk(x, way, scores, ends)
        return (total / (2 * self.samples)).to(x)


def _walk(x: Tensor, order: Tensor, scores: Scores, ends: Tensor) -> Tensor:
    """What each part adds when parts come in this order, [n, shown, parts]; the scores of no part and of all known."""
    place = order.argsort()
    kept = place < torch.arange(1, len(order))[:, None]
    between = [scores_of_parts(x, kept, scores)] if len(kept) else []
    added: Tensor = torch.cat([ends[:, :, :1], *between, ends[:, :, 1:]], dim=2).diff(dim=2)
    return added[:, :, place]
