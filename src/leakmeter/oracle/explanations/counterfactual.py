"""Counterfactuals: the nearest input found that the model calls something else (Wachter, Mittelstadt, Russell 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from leakmeter.oracle.explanations.base import Explanation, Scores
from leakmeter.victims.spec import VictimSpec
from leakmeter.victims.victim import Responder

_ANYWHERE, _AROUND = 40, (0.05, 0.1, 0.2, 0.4)
"""Candidates from the whole box, and at how many widths of it as many again in all are drawn about the input."""
_HALVINGS = 12
_ROUNDS, _NEARER = 3, 20
"""How often a nearer one is looked for beside the best, and among how many."""


@dataclass(frozen=True)
class Counterfactual(Explanation):
    """Searches by labels alone, so of any victim: random candidates, then bisection, then nearer ones beside the best.

    Candidates are uniform in the box and normal about the input; the nearest (in widths of the box, Euclidean) with
    another label is moved towards the input by bisection. Then candidates between the input and the best so far,
    shifted a little, are tried in the same way. Shown are the input found, `answer.explanation`, and its label, the
    column `counterfactual_labels`. Where no other label is found, the input itself is shown with its own.
    """

    name: ClassVar[str] = "counterfactual"
    column: ClassVar[str] = "counterfactuals"
    needs_gradients: ClassVar[bool] = False
    linear: ClassVar[bool] = False
    softmax_known: ClassVar[bool] = True
    a_map: ClassVar[bool] = False

    def check(self, victim: Responder) -> None:
        """Any victim."""

    def work(self, victim: Responder) -> int:  # noqa: ARG002
        """Every candidate, every halving, and the labels of the input and of what is shown."""
        tried = _ANYWHERE + len(_AROUND) * (_ANYWHERE // len(_AROUND)) + _HALVINGS
        return 2 + tried + _ROUNDS * (_NEARER + _HALVINGS)

    def explain(self, x: Tensor, scores: Scores) -> Tensor:
        """The inputs found, [n, *input_shape]."""
        search = _Search(x, scores)
        search.try_all(_everywhere(x, scores))
        for round_ in range(_ROUNDS):
            search.try_all(_between(x, search.best, scores, 0.3 / 2**round_))
        return search.best

    def beside(self, shown: Tensor, scores: Scores) -> dict[str, Tensor]:
        """The labels of what is shown."""
        return {"counterfactual_labels": scores.labels(scores.spec.clamp(shown))}


class _Search:
    """The nearest input of another label so far, for each row."""

    def __init__(self, x: Tensor, scores: Scores) -> None:
        self.x, self.scores = x, scores
        self.own = scores.labels(x)
        self.best = x.clone()
        self.distance = torch.full((len(x),), torch.inf, dtype=x.dtype, device=x.device)

    def try_all(self, candidates: list[Tensor]) -> None:
        """Takes the nearest of the candidates, one row each, and moves it towards the input."""
        near, distance = self.best.clone(), torch.full_like(self.distance, torch.inf)
        for each in candidates:
            away = self._distance(each)
            better = (away < distance) & (self.scores.labels(each) != self.own)
            near[better], distance[better] = each[better], away[better]
        self._keep(near, distance)
        low = torch.zeros_like(distance)
        high = torch.ones_like(distance)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            point = self.scores.spec.clamp(torch.lerp(self.x, near, _wide(middle, self.x)))
            other = (self.scores.labels(point) != self.own) & distance.isfinite()
            self._keep(point, torch.where(other, self._distance(point), torch.inf))
            low, high = torch.where(other, low, middle), torch.where(other, middle, high)

    def _keep(self, points: Tensor, distance: Tensor) -> None:
        better = distance < self.distance
        self.best[better], self.distance[better] = points[better], distance[better]

    def _distance(self, points: Tensor) -> Tensor:
        unit = torch.as_tensor(self.scores.spec.box.unit).to(points)
        return ((points - self.x) / unit).flatten(1).nan_to_num(0).square().sum(1).sqrt()


def _everywhere(x: Tensor, scores: Scores) -> list[Tensor]:
    spec = scores.spec
    drawn = [spec.sample(len(x), scores.noise).to(x) for _ in range(_ANYWHERE)]
    for width in _AROUND:
        drawn += [spec.clamp(x + _noise(x, spec, width, scores.noise)) for _ in range(_ANYWHERE // len(_AROUND))]
    return drawn


def _between(x: Tensor, best: Tensor, scores: Scores, width: float) -> list[Tensor]:
    """Points about the best so far, moved by a share of its own distance from the input."""
    away = (best - x).nan_to_num(0)
    made = []
    for _ in range(_NEARER):
        kept = torch.rand(x.shape, generator=scores.noise).to(x) > width  # some features as they were in the input
        jitter = 1 + width * torch.randn(x.shape, generator=scores.noise).to(x)
        made.append(scores.spec.clamp(x + away * kept * jitter))
    return made


def _noise(x: Tensor, spec: VictimSpec, width: float, generator: torch.Generator) -> Tensor:
    scale = width * torch.as_tensor(spec.box.unit).to(x)
    return torch.randn(x.shape, generator=generator).to(x) * scale


def _wide(numbers: Tensor, x: Tensor) -> Tensor:
    return numbers.view(-1, *[1] * (x.dim() - 1))
