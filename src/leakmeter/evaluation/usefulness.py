"""What an explanation still tells a user: measured on the model itself, by calls that are the owner's own.

All measures look at the map of the class the model names, as what each feature adds: a gradient is multiplied by the
input less the baseline first. Features that are taken away become zero, or what the box has nearest.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from leakmeter.oracle.explanations.baseline import baseline
from leakmeter.oracle.oracle import Oracle
from leakmeter.oracle.view import View
from leakmeter.seeds import derive, stream
from leakmeter.victims.victim import Victim

_STEPS = 10  # of the deletion and insertion curves
_SUBSETS = 20  # of features, for the infidelity
_NEAR = 0.02  # of the box: how far an input is moved for the stability


class Usefulness(BaseModel):
    """Means over inputs; of an explanation that is no map there are none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    deletion: float
    """Mean probability of the class while the most important features are taken away; lower is better."""
    insertion: float
    """The same while they are put into the baseline; higher is better (Petsiuk, Das and Saenko 2018)."""
    infidelity: float
    """Share of the variance of what subsets of features take away that the map leaves open (after Yeh et al. 2019)."""
    stability: float
    """Cosine of the maps of two inputs that are nearly the same."""
    agreement: float
    """Rank correlation of the sizes with those of the explanation without protections."""

    @property
    def gap(self) -> float:
        """Insertion less deletion: 0 for a map that says nothing."""
        return self.insertion - self.deletion


def usefulness(victim: Victim, view: str, x: Tensor, seed: int = 0) -> Usefulness | None:
    """How useful the explanation of `view` is for the inputs `x`; None: it is no map."""
    shown = View.parse(view)
    if shown.explanation is None or not shown.explanation.a_map:
        return None
    maps, near = _maps(victim, shown, x, seed), victim.spec.clamp(x + _shift(victim, x, seed))
    whole = _maps(victim, replace(shown, protections=()), x, seed)
    return Usefulness(
        deletion=_curve(victim, x, maps, inserted=False),
        insertion=_curve(victim, x, maps, inserted=True),
        infidelity=_infidelity(victim, x, maps, seed),
        stability=float(torch.cosine_similarity(maps, _maps(victim, shown, near, derive(seed, "near"))).mean()),
        agreement=_rank_correlation(maps.abs(), whole.abs()),
    )


def _maps(victim: Victim, view: View, x: Tensor, seed: int) -> Tensor:
    """What each feature adds to the class that is named, [n, features]."""
    answer = Oracle(victim, view, seed=derive(seed, "usefulness")).query(x)
    of_class = answer.explanation[torch.arange(len(x)), answer.labels].double()
    if answer.view.explanation is not None and answer.view.explanation.column == "gradients":
        of_class = of_class * (x - baseline(victim.spec, None).to(x)).double()
    return of_class.expand(len(x), *victim.spec.input_shape).flatten(1)


def _probability(victim: Victim, x: Tensor, labels: Tensor) -> Tensor:
    answer = Oracle(victim, "probs").query(victim.spec.clamp(x))
    return answer.probs[torch.arange(len(x)), labels].double()


def _curve(victim: Victim, x: Tensor, maps: Tensor, *, inserted: bool) -> float:
    """The mean probability of the class over steps in which the most important features come or go."""
    labels = Oracle(victim, "labels").query(x).labels
    rank = maps.argsort(1, descending=True).argsort(1).reshape(x.shape)
    nothing, features = baseline(victim.spec, None).to(x), maps.shape[1]
    total = torch.zeros(len(x), dtype=torch.float64)
    for step in range(_STEPS + 1):
        first = rank < round(features * step / _STEPS)
        total += _probability(victim, torch.where(first == inserted, x, nothing), labels)
    return float(total.mean() / (_STEPS + 1))


def _infidelity(victim: Victim, x: Tensor, maps: Tensor, seed: int) -> float:
    """1 - R² of the best multiple of each map's sums, for what random subsets take from the probability."""
    labels, draws = Oracle(victim, "labels").query(x).labels, stream(seed, "subsets")
    nothing, whole = baseline(victim.spec, None).to(x), _probability(victim, x, labels)
    told, true = [], []
    for _ in range(_SUBSETS):
        gone = torch.rand(x.shape, generator=draws) < torch.rand((), generator=draws)
        told.append((maps * gone.flatten(1)).sum(1))
        true.append(whole - _probability(victim, torch.where(gone, nothing, x), labels))
    a, b = torch.stack(told, 1), torch.stack(true, 1)
    share = (a * b).sum(1).square() / (a.square().sum(1) * b.square().sum(1)).clamp_min(1e-300)
    return float((1 - share).mean())


def _shift(victim: Victim, x: Tensor, seed: int) -> Tensor:
    scale = _NEAR * torch.as_tensor(victim.spec.box.unit).to(x)
    return torch.randn(x.shape, generator=stream(seed, "near")).to(x) * scale


def _rank_correlation(one: Tensor, other: Tensor) -> float:
    """Spearman's, the mean over rows; equal numbers share their mean rank."""
    from scipy.stats import rankdata

    ranks = [torch.from_numpy(rankdata(each.numpy(), axis=1)) for each in (one, other)]
    first, second = (each - each.mean(1, keepdim=True) for each in ranks)
    return float(torch.cosine_similarity(first, second).mean())
