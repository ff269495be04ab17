"""A Gaussian process for tables, whose columns it learns to stretch: it knows that a model of a table adds up boxes.

Two rows are the more alike the fewer thresholds lie between them. Every column is laid out on a line of its own, long
where the victim's answers change much, and likeness is a product over columns, `1 - share + share * exp(-distance)`:
for small shares nearly a sum of what few columns say together, as the scores of boosted trees are. Lines and shares are
those under which the answers are most likely; the rest is one linear system.
"""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from leakmeter.data.columns import Column, Columns
from leakmeter.extraction.students import Lesson, Student
from leakmeter.extraction.students.trees import scores
from leakmeter.seeds import stream
from leakmeter.victims.spec import VictimSpec

_MOST_FEATURES, _MOST_CLASSES = 64, 16
_MOST_ROWS = 10_000  # answers it learns from: the system takes their square in memory, their cube in time
_STEPS, _BATCH, _RATE = 80, 400, 0.2
_STEP, _PAIR = 5e-3, 7e-9  # seconds of one core, for each column: of a step, and of the likeness of two rows
_KNOTS = 64  # places of a column between which its line is straight
_SHARE, _NOISE, _LEAST_NOISE = 0.15, 1e-3, 1e-5  # to begin with, of a variance of 1
_BLOCK = 32  # rows whose likenesses are computed at a time, so that they stay in the cache


class Kernel(Student):
    """The mean of the process, given the answers."""

    differentiable = False

    def suits(self, spec: VictimSpec) -> bool:
        """Tables whose columns are known, not too wide, of not too many classes."""
        return spec.columns is not None and spec.features <= _MOST_FEATURES and 1 < spec.classes <= _MOST_CLASSES

    def fit(self, lesson: Lesson) -> nn.Module:
        """Stretches the columns by some of the answers at a time, then solves for all of them."""
        draws = stream(lesson.seed, "kernel")
        steps, most = _effort(lesson)
        rows = torch.randperm(len(lesson.x), generator=draws)[:most]
        x, y = lesson.x[rows].float(), _targets(lesson)[rows]
        assert lesson.spec.columns is not None
        lines = _Lines(lesson.spec.columns, x)
        _stretch(lines, x, _normal(y), steps, draws)
        if (
            lesson.reading != "labels"
        ):  # few answers at a time take what they do not explain for noise; scores have none
            lines.noise.data.clamp_(max=math.log(_NOISE))
        return Process(lines, x, y, lesson.spec.classes).eval()


class _Lines(nn.Module):
    """Every column on a line of its own, and what share of the likeness it has."""

    knots: Tensor

    def __init__(self, columns: Columns, x: Tensor) -> None:
        super().__init__()
        knots = [_knots(column, x[:, place]) for place, column in enumerate(columns)]
        self.counts = list(map(len, knots))
        self.rising = [column.kind != "categorical" for column in columns]
        begun = [_begun(*each) for each in zip(self.counts, self.rising, strict=True)]
        self.register_buffer("knots", nn.utils.rnn.pad_sequence(knots, batch_first=True))
        self.steps = nn.Parameter(nn.utils.rnn.pad_sequence(begun, batch_first=True))
        self.absent = nn.Parameter(torch.full((len(columns),), 0.5))
        self.share = nn.Parameter(torch.full((len(columns),), math.log(_SHARE / (1 - _SHARE))))
        self.noise = nn.Parameter(torch.tensor(math.log(_NOISE)))

    def forward(self, x: Tensor) -> Tensor:
        """The places of the rows' values on the lines, [n, columns]."""
        rising = F.softplus(self.steps).cumsum(1)
        found = [self._place(j, x[:, j], rising[j] if up else self.steps[j]) for j, up in enumerate(self.rising)]
        return torch.stack(found, 1)

    def _place(self, column: int, values: Tensor, places: Tensor) -> Tensor:
        knots = self.knots[column, : self.counts[column]].contiguous()
        given = values.nan_to_num(0.0).contiguous()
        right = torch.searchsorted(knots, given).clamp(1, len(knots) - 1)
        across = ((given - knots[right - 1]) / (knots[right] - knots[right - 1])).clamp(0, 1)
        found = torch.lerp(places[right - 1], places[right], across)
        return torch.where(values.isnan(), self.absent[column], found)


class Process(nn.Module):
    """Scores of rows from their likeness to the rows that were asked."""

    asked: Tensor
    weight: Tensor
    mean: Tensor

    def __init__(self, lines: _Lines, x: Tensor, y: Tensor, classes: int) -> None:
        super().__init__()
        self.lines, self.classes = lines.requires_grad_(False), classes
        self.register_buffer("asked", lines(x))
        self.register_buffer("mean", y.mean(0))
        alike, turned = torch.empty(len(x), len(x)), self.asked.T.contiguous()
        for start in range(0, len(x), _BLOCK):
            alike[start : start + _BLOCK] = _alike_in_place(self.asked[start : start + _BLOCK], turned, lines.share)
        self.register_buffer("weight", _solved(alike, y - self.mean, float(lines.noise.exp())))

    def forward(self, x: Tensor) -> Tensor:
        """One output a class; of two classes the first has 0."""
        places, turned, share = self.lines(x.to(self.asked)).detach(), self.asked.T.contiguous(), self.lines.share
        found = torch.cat([_alike_in_place(some, turned, share) @ self.weight for some in places.split(_BLOCK)])
        found = found + self.mean
        return torch.cat([torch.zeros_like(found), found], 1) if found.shape[1] < self.classes else found


def _alike(one: Tensor, other: Tensor, share: Tensor) -> Tensor:
    """The likeness of every row of one to every row of the other."""
    product = torch.ones((), dtype=one.dtype, device=one.device)
    for column, part in enumerate(share.sigmoid()):
        factor = (one[:, column, None] - other[None, :, column]).abs().neg().exp() * part + (1 - part)
        product = product * factor
    return product


def _alike_in_place(one: Tensor, other: Tensor, share: Tensor) -> Tensor:
    """What `_alike` computes, several times as fast, without gradients: `other` has one row a column."""
    product = one.new_ones(len(one), other.shape[1])
    for column, part in enumerate(share.sigmoid()):
        factor = (one[:, column, None] - other[column]).abs_().neg_().exp_()
        product.mul_(factor.mul_(part).add_(1 - part))
    return product


def seconds(features: int, answers: int) -> float:
    """What it takes to learn from so many answers with all the effort that pays."""
    return features * (_STEPS * _STEP + _PAIR * min(answers, _MOST_ROWS) ** 2)


def _effort(lesson: Lesson) -> tuple[int, int]:
    """How many steps and how many rows fit into the lesson's seconds."""
    answers = min(len(lesson.x), _MOST_ROWS)
    share = min(1.0, lesson.seconds / seconds(lesson.spec.features, answers))
    return max(round(share * _STEPS), _STEPS // 4), max(round(math.sqrt(share) * answers), _BATCH)


def _stretch(lines: _Lines, x: Tensor, y: Tensor, steps: int, draws: torch.Generator) -> None:
    """Climbs the likelihood of the answers, some of them at a time."""
    climb = torch.optim.Adam(lines.parameters(), lr=_RATE)
    pace = torch.optim.lr_scheduler.OneCycleLR(climb, _RATE, total_steps=steps)
    with torch.enable_grad():
        for _ in range(steps):
            rows = torch.randperm(len(x), generator=draws)[:_BATCH]
            climb.zero_grad()
            _unlikeliness(lines, x[rows], y[rows]).backward()  # type: ignore[no-untyped-call]
            climb.step()
            pace.step()


def _unlikeliness(lines: _Lines, x: Tensor, y: Tensor) -> Tensor:
    """Minus the mean log-likelihood, each output's variance being what suits it best; up to a constant."""
    places = lines(x)
    alike = _alike(places, places, lines.share).double()
    noise = (lines.noise.exp() + _LEAST_NOISE) * torch.eye(len(x), dtype=alike.dtype, device=alike.device)
    root = torch.linalg.cholesky(alike + noise)
    white = torch.linalg.solve_triangular(root, y.double(), upper=False)
    return torch.add(0.5 * (white.square().mean(0) + 1e-12).log().mean(), root.diagonal().log().mean())


def _solved(alike: Tensor, y: Tensor, noise: float) -> Tensor:
    """The weights of the rows asked; with more noise where the system is too near a singular one."""
    noise += _LEAST_NOISE
    while True:
        alike.diagonal().add_(noise)
        root, failed = torch.linalg.cholesky_ex(alike)
        if not failed:
            return torch.cholesky_solve(y.to(root), root)
        noise *= 9


def _targets(lesson: Lesson) -> Tensor:
    """Scores; of labels one column a class, 1 where it was named and -1 elsewhere."""
    if lesson.reading != "labels":
        return torch.from_numpy(scores(lesson)).float()
    named = 2 * F.one_hot(lesson.answer.labels, lesson.spec.classes).float() - 1
    return named[:, 1:] if lesson.spec.classes == 2 else named


def _normal(y: Tensor) -> Tensor:
    centred = y - y.mean(0)
    return centred / centred.square().mean(0).sqrt().clamp_min(1e-6)


def _knots(column: Column, values: Tensor) -> Tensor:
    """All values of a column that has few, else ends and quantiles of what was asked; two at least."""
    ends = torch.tensor(column.ends, dtype=torch.float32)
    if column.kind == "categorical" or (column.values is not None and len(column.values) <= _KNOTS):
        return torch.tensor(column.values, dtype=torch.float32)
    known = values[~values.isnan()]
    inner = known.quantile(torch.linspace(0, 1, _KNOTS)) if len(known) else ends
    return torch.from_numpy(np.unique(torch.cat([ends, inner]).numpy()))


def _begun(count: int, rising: bool) -> Tensor:
    """A line of length 1 to begin with: of levels their places, of numbers the steps, before they are made positive."""
    if not rising:
        return torch.linspace(0, 1, count)
    return torch.full((count,), math.log(math.expm1(1 / max(1, count - 1))))


KERNEL = Kernel()
