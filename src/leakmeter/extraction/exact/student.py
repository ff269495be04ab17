"""A dense network that learns which class is named where, given the first layer that was found, if one was.

Where a victim names classes by small differences of scores that are large elsewhere, errors of scores say little. So
the student is compared by probabilities, as sharp as half of the points decide them. Gradients shown make of each
point a piece of a plane: every step moves it a little, and its scores by as much as the gradient says.
"""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from leakmeter.extraction.exact.fresh import Answers
from leakmeter.extraction.exact.stack import Layer
from leakmeter.seeds import private_randomness
from leakmeter.training.loop import Batch, Recipe, fit

_WIDTHS = (128, 128, 128)
_STEPS, _FEWEST = 3000, 300
_BATCH, _WIDE_BATCH, _WIDE, _RATE = 512, 128, 64, 3e-3
"""Points a step, fewer of more than so many features."""
_SHARP = 0.3
"""The temperature of probabilities, as a share of the median lead of the first class over the second."""
_NEAR = 0.07
"""How far a point is moved, in spreads of all points."""


class Student(nn.Module):
    """From inputs to scores, in float32 inside."""

    middle: Tensor
    reach: Tensor
    weight: Tensor
    bias: Tensor

    def __init__(self, told: Answers, first: Layer | None) -> None:
        super().__init__()
        spread, middle = torch.std_mean(told.x, dim=0, unbiased=False)
        reach = torch.where(spread > 0, 2 * spread, torch.ones_like(spread))
        rows = told.x.new_zeros(0, told.x.shape[1]) if first is None else first.weight[~first.linear]
        offsets = told.x.new_zeros(0) if first is None else first.bias[~first.linear]
        weight, bias = rows * reach, offsets + rows @ middle
        size = weight.norm(dim=1).clamp(min=1e-300)
        for name, tensor in {
            "middle": middle,
            "reach": reach,
            "weight": weight / size[:, None],
            "bias": bias / size,
            "unit": torch.tensor(_unit(told.scores)),
        }.items():
            self.register_buffer(name, tensor.float())
        widths = (told.x.shape[1] + len(rows), *_WIDTHS, told.scores.shape[1])
        layers = [part for a, b in pairwise(widths) for part in (nn.Linear(a, b), nn.ReLU())]
        self.rest = nn.Sequential(*layers[:-1])

    def scaled(self, x: Tensor) -> Tensor:
        """Inputs of size one."""
        return (x.flatten(1).to(self.middle) - self.middle) / self.reach

    def inner(self, x: Tensor) -> Tensor:
        """Scores in their own unit, of scaled inputs."""
        known = torch.relu(torch.addmm(self.bias, x, self.weight.T))
        scores: Tensor = self.rest(torch.cat([x, known], 1))
        return scores

    def forward(self, x: Tensor) -> Tensor:
        """Scores whose differences are the victim's, in the type of `x`."""
        return (self.inner(self.scaled(x)) * self.get_buffer("unit")).to(x.dtype)


def _unit(scores: Tensor) -> float:
    """What scores are divided by before they are compared."""
    if scores.shape[1] == 1:
        return max(float(scores.std(unbiased=False)), 1e-300)
    first = scores.topk(2, 1).values
    return max(_SHARP * float((first[:, 0] - first[:, 1]).median()), 1e-300)


def taught(told: Answers, first: Layer | None, seed: int) -> Student:
    """A student that learned the answers."""
    with private_randomness(seed):
        student = Student(told, first)
    unit = student.get_buffer("unit").double()
    slopes = None if told.gradients is None else told.gradients * (student.reach / unit.float())
    middle = 0.0 if told.scores.shape[1] == 1 else told.scores.mean(1, keepdim=True)
    x, scores = student.scaled(told.x), ((told.scores - middle) / unit).float()
    near = _NEAR / x.shape[1] ** 0.5

    def loss(model: nn.Module, batch: Batch, draws: torch.Generator) -> Tensor:
        assert isinstance(model, Student)
        rows, here, wanted = batch
        if slopes is not None:
            size = near * torch.rand(len(here), 1, generator=draws).square()
            step = size * torch.randn(here.shape, generator=draws)
            here, wanted = here + step, wanted + torch.einsum("ncd,nd->nc", slopes[rows], step)
        guess = model.inner(here)
        if guess.shape[1] == 1:
            return F.smooth_l1_loss(guess, wanted)
        return F.cross_entropy(guess, wanted.softmax(1))

    steps = min(_STEPS, max(_FEWEST, len(x)))
    batch = _BATCH if x.shape[1] <= _WIDE else _WIDE_BATCH
    recipe = Recipe(steps=steps, batch=batch, lr=_RATE, schedule="cyclic", warmup=0.1)
    fit(student, (torch.arange(len(x)), x, scores), loss, recipe, seed=seed)
    return student
