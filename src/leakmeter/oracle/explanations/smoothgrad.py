"""SmoothGrad: the mean of gradients at noisy copies of the input (Smilkov, Thorat, Kim, Viégas and Wattenberg 2017)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from leakmeter.errors import UsageError
from leakmeter.oracle.explanations.base import Explanation, Scores
from leakmeter.victims.spec import VictimSpec
from leakmeter.victims.victim import Responder


@dataclass(frozen=True)
class SmoothGrad(Explanation):
    """Averages the gradients at `samples` copies, to which noise of `sigma` widths of the box was added."""

    name: ClassVar[str] = "smoothgrad"
    sampled: ClassVar[bool] = True
    samples: int = 10
    sigma: float = 0.1

    def __post_init__(self) -> None:
        if not 1 <= self.samples <= 10**9 or self.sigma <= 0:
            raise UsageError(f"expected smoothgrad:SAMPLES,SIGMA with a sample or more and SIGMA above 0, got '{self}'")

    def work(self, victim: Responder) -> int:  # noqa: ARG002
        """A gradient for each copy."""
        return self.samples

    def explain(self, x: Tensor, scores: Scores) -> Tensor:
        """The mean gradients, [n, shown, *input_shape]; copies are not clamped to the box."""
        scale = self.sigma * torch.as_tensor(scores.spec.box.unit).to(x)
        total = torch.zeros((), dtype=x.dtype, device=x.device)
        for _ in range(self.samples):
            shift = torch.randn(x.shape, generator=scores.noise, dtype=x.dtype).to(x.device) * scale
            total = total + scores.gradients(x + shift)
        return total / self.samples

    def fewer(self, spec: VictimSpec) -> Explanation:  # noqa: ARG002
        """One copy: the mean is the same."""
        return replace(self, samples=1)
