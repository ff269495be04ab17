"""Answers to points asked for their own sake: what a copy that is not whole is learned from, and judged by."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from leakmeter.extraction.exact.asking import Asker
from leakmeter.extraction.exact.probes import start_points
from leakmeter.extraction.sources import SOURCES
from leakmeter.oracle.answer import to_labels
from leakmeter.victims.spec import VictimSpec

_NUMBERS = 2**26
"""Gradient components kept: half a gigabyte while they are read."""
_MOST, _UNPRICED = 20_000, 2_000
"""Points at most, and where no budget ends."""
_HELD = 5
"""One point of so many is kept to judge by."""
_PICTURES = ("glyphs", "drawings", "uniform")
_FEW = 64
"""In boxes of so many features uniform points differ from each other enough."""


@dataclass(frozen=True)
class Answers:
    """Points [n, d] with what the classes score there, [n, C] (a single score as it is), and its gradients."""

    x: Tensor
    scores: Tensor
    gradients: Tensor | None
    """[n, C, d], in float32; None where they are not shown."""

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, rows: Tensor | slice) -> Answers:
        return Answers(self.x[rows], self.scores[rows], None if self.gradients is None else self.gradients[rows])

    def parted(self) -> tuple[Answers, Answers]:
        """Those to learn from and those to judge by."""
        held = torch.arange(len(self)) % _HELD == 0
        return self[~held], self[held]

    def labels(self) -> Tensor:
        """The class each point is of."""
        return to_labels(self.scores)


def ask_fresh(asker: Asker, generator: torch.Generator) -> Answers:
    """Asks what is left of the budget, at points such as an outsider could think of in no special order."""
    cost = asker.outputs * asker.d if asker.explained else 1
    left = asker.oracle.remaining
    n = min(_UNPRICED if left is None else left, _MOST, max(1, _NUMBERS // cost))
    if n == 0:
        nothing = asker.contrasts.new_zeros(0, asker.d)
        return Answers(nothing, nothing[:, :0], None)
    x = asker.rounded(likely_points(asker.spec, n, generator))
    answer = asker.ask(x)
    seen = answer.usable
    shown = answer.gradients if asker.explained else None
    back = asker.contrasts.float()
    slopes = None if shown is None else torch.einsum("nkd,kc->ncd", shown[seen].float(), back)
    return Answers(x[seen], answer.values[seen] @ asker.contrasts, slopes)


def likely_points(spec: VictimSpec, n: int, generator: torch.Generator) -> Tensor:
    """Points [n, d] of the kinds that inputs may be of, in random order.

    Pictures are drawn, written and noise. All else is uniform in its box, or standard normal where it is open; of many
    features half of the points are few of them on an even background, since uniform ones are all alike.
    """
    if len(spec.input_shape) == 3 and min(spec.input_shape[1:]) >= 8 and spec.input_shape[0] in (1, 3):
        parts = [SOURCES[name](-(-n // len(_PICTURES)), spec, generator) for name in _PICTURES]
    elif spec.width is not None and spec.columns is None and spec.features > _FEW:
        parts = [spec.sample(-(-n // 2), generator), start_points(spec, -(-n // 2), generator)]
    else:
        parts = [spec.sample(n, generator)]
    points = torch.cat([part.double().flatten(1) for part in parts])
    return points[torch.randperm(len(points), generator=generator)[:n]]
