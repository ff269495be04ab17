"""Answers to points asked for their own sake: what a copy that is not whole is learned from, and judged by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from leakmeter.extraction.exact.asking import Asker
from leakmeter.extraction.exact.bank import cells_of
from leakmeter.extraction.exact.probes import is_picture, start_points
from leakmeter.extraction.exact.survey import Survey
from leakmeter.extraction.sources import SOURCES
from leakmeter.oracle.answer import to_labels
from leakmeter.victims.spec import VictimSpec

Kind = Callable[[int, torch.Generator], Tensor]
"""Draws so many points [n, d] of one kind."""
_NUMBERS = 2**26
"""Gradient components kept: half a gigabyte while they are read."""
_MOST, _UNPRICED = 20_000, 2_000
"""Points at most, and where no budget ends."""
_HELD = 5
"""One point of so many is kept to judge by."""
_PICTURES = ("glyphs", "drawings", "uniform")
_FEW = 64
"""In boxes of so many features uniform points differ from each other enough."""
_ALIKE, _LEAST = 0.2, 0.05
"""The share of points that is of each kind alike, and what a kind weighs at least in the rest."""

ROUNDS, _WORTHWHILE, _DRAWN = 3, 300, 4
"""Rounds of questions, if there are so many of them; and points drawn for each asked where a copy is least decided."""


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

    def mixed(self) -> float:
        """The share of points that is not of the commonest class."""
        labels = self.labels()
        return float((labels != labels.mode().values).double().mean()) if len(labels) else 0.0


def joined(parts: list[Answers]) -> Answers:
    """All of them, at least one."""
    slopes = [part.gradients for part in parts if part.gradients is not None]
    x, scores = (torch.cat(column) for column in zip(*((part.x, part.scores) for part in parts), strict=True))
    return Answers(x, scores, torch.cat(slopes) if slopes else None)


def lines_shown(surveys: list[Survey], asker: Asker, generator: torch.Generator) -> Answers:
    """Some of the places of lines whose linear piece is known, no more than fit beside as many fresh points."""
    if not surveys:
        return ask_at(asker, asker.contrasts.new_zeros(0, asker.d))
    x, cells = cells_of(surveys)
    sure = cells.g_noise.isfinite().nonzero()[:, 0]
    most = max(1, _NUMBERS // (asker.outputs * asker.d))
    rows = sure[torch.randperm(len(sure), generator=generator)[:most]]
    slopes = torch.einsum("nkd,kc->ncd", cells.g[rows].float(), asker.contrasts.float()) if asker.explained else None
    return Answers(x[rows], cells.f[rows] @ asker.contrasts, slopes)


def ask_fresh(asker: Asker, generator: torch.Generator) -> Answers:
    """Asks what is left of the budget at points such as an outsider could think of, in random order.

    Of several kinds a part is of each alike; of the rest a kind has the less, the more its points are all of one class.
    Where there is one kind and several classes a third is asked: `ask_undecided` has a better use for the others.
    """
    cost = asker.outputs * asker.d if asker.explained else 1
    left, kinds = asker.oracle.remaining, likely_kinds(asker.spec)
    n = min(_UNPRICED if left is None else left, _MOST, max(1, _NUMBERS // cost))
    if len(kinds) == 1:
        rounds = 1 if left is None or n < _WORTHWHILE or asker.spec.classes == 1 else ROUNDS
        return _ask(asker, kinds[0], -(-n // rounds), generator)
    first = int(_ALIKE * n) // len(kinds)
    told = [_ask(asker, kind, first, generator) for kind in kinds]
    shares = torch.tensor([_LEAST + answers.mixed() for answers in told])
    counts = (shares / shares.sum() * (n - first * len(kinds))).int()
    counts[shares.argmax()] += n - first * len(kinds) - int(counts.sum())
    told += [_ask(asker, kind, int(count), generator) for kind, count in zip(kinds, counts, strict=True)]
    together = joined(told)
    return together[torch.randperm(len(together), generator=generator)]


@torch.no_grad()
def ask_undecided(asker: Asker, copy: nn.Module, asked: int, generator: torch.Generator) -> Answers:
    """Asks as many points as were `asked` at first, if the budget allows: those where a copy is least decided."""
    kinds, n = likely_kinds(asker.spec), min(asked, asker.oracle.remaining or 0)
    if len(kinds) > 1 or asker.spec.classes == 1:
        n = 0
    if n == 0:
        return _ask(asker, kinds[0], 0, generator)
    points = kinds[0](_DRAWN * n, generator)
    first, second = copy(points).topk(2, 1).values.T
    return ask_at(asker, points[(first - second).argsort()[:n]])


def _ask(asker: Asker, kind: Kind, n: int, generator: torch.Generator) -> Answers:
    """So many points of a kind; there may be none to ask."""
    return ask_at(asker, kind(n, generator) if n else asker.contrasts.new_zeros(0, asker.d))


def ask_at(asker: Asker, points: Tensor) -> Answers:
    """The answers at points [n, d] that can be read."""
    if not len(points):
        nothing = points.new_zeros(0, asker.d)
        slopes = nothing.new_zeros(0, asker.contrasts.shape[1], asker.d).float() if asker.explained else None
        return Answers(nothing, nothing.new_zeros(0, asker.contrasts.shape[1]), slopes)
    x = asker.rounded(points)
    answer = asker.ask(x)
    seen = answer.usable
    shown = answer.gradients if asker.explained else None
    back = asker.contrasts.float()
    slopes = None if shown is None else torch.einsum("nkd,kc->ncd", shown[seen].float(), back)
    return Answers(x[seen], answer.values[seen] @ asker.contrasts, slopes)


def likely_kinds(spec: VictimSpec) -> list[Kind]:
    """The kinds of points that inputs may be of.

    Pictures are drawn, written and noise. All else is uniform in its box, or standard normal where it is open; of many
    features there are also few of them on an even background, since uniform ones are all alike.
    """
    if is_picture(spec):
        return [lambda n, g, draw=SOURCES[name]: _flat(draw(n, spec, g), spec) for name in _PICTURES]  # type: ignore[misc]
    kinds: list[Kind] = [lambda n, g: _flat(spec.sample(n, g), spec)]
    if spec.width is not None and spec.columns is None and spec.features > _FEW:
        kinds.append(lambda n, g: start_points(spec, n, g))
    return kinds


def _flat(points: Tensor, spec: VictimSpec) -> Tensor:
    return points.double().reshape(-1, spec.features)
