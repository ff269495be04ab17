"""LIME: a linear model of the answers to inputs of which parts are taken away (Ribeiro, Singh and Guestrin 2016)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from leakmeter.errors import UsageError
from leakmeter.oracle.explanations.base import Explanation, Scores
from leakmeter.oracle.explanations.baseline import count, players, scores_of_parts, spread
from leakmeter.victims.spec import VictimSpec
from leakmeter.victims.victim import Responder

_WIDTH = 0.25  # of the kernel over cosine distances, as in the authors' code for pictures
_RIDGE = 1e-3  # of the weight of all samples


@dataclass(frozen=True)
class Lime(Explanation):
    """Weighted least squares over `samples` inputs, each without a random half of the parts.

    Parts are seven squares a side of a picture, else single columns; zero, or what the box has nearest, stands for one
    that is taken away. Samples near the input weigh more.
    """

    name: ClassVar[str] = "lime"
    column: ClassVar[str] = "attributions"
    needs_gradients: ClassVar[bool] = False
    sampled: ClassVar[bool] = True
    samples: int = 200

    def __post_init__(self) -> None:
        if not 2 <= self.samples <= 10**6:
            raise UsageError(f"expected lime:SAMPLES with two samples or more, got '{self}'")

    def check(self, victim: Responder) -> None:
        """As many samples as there are coefficients."""
        super().check(victim)
        least = count(victim.spec) + 1
        if self.samples < least:
            raise UsageError(f"expected lime:SAMPLES with at least {least} samples for that many parts, got '{self}'")

    def work(self, victim: Responder) -> int:  # noqa: ARG002
        """One call a sample."""
        return self.samples

    def explain(self, x: Tensor, scores: Scores) -> Tensor:
        """The coefficients, [n, shown, *input_shape]: every feature of a part has the part's."""
        kept = torch.rand(self.samples, count(scores.spec), generator=scores.noise).to(x.device) < 0.5
        kept[0] = True
        answers = scores_of_parts(x, kept, scores)
        return spread((answers.double() @ _solver(kept).T).to(x), players(scores.spec))

    def fewer(self, spec: VictimSpec) -> Explanation:
        """Two samples a coefficient."""
        return replace(self, samples=min(self.samples, 2 * (count(spec) + 1)))


def _solver(kept: Tensor) -> Tensor:
    """From the answers to the coefficients, [parts, samples]: they are linear in what was answered."""
    design = torch.cat([torch.ones(len(kept), 1, device=kept.device), kept], 1).double()
    near = (kept.double().mean(1).sqrt() - 1) / _WIDTH  # the cosine of a row of 0 and 1 with a row of 1
    weights = torch.exp(-near.square())
    weighted = design * weights[:, None]
    ridge = _RIDGE * weights.sum() * torch.eye(design.shape[1], dtype=torch.float64, device=kept.device)
    ridge[0, 0] = 0
    solved: Tensor = torch.linalg.solve(weighted.T @ design + ridge, weighted.T)
    return solved[1:]
