"""Learns what the algebra left open of a copy from the answers that were asked for it, no further ones.

Weights that are known stay as they are. Where whole layers are missing, a plain network learns the same answers
beside it; which copy is handed over is decided on lines that none of them learned from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from leakmeter.extraction.exact.copy import DeepCopy
from leakmeter.extraction.exact.output import Known
from leakmeter.seeds import private_randomness

_STEPS, _A_STEP, _BATCH = 1500, 4, 256
"""Steps at most, and answers that pay for one."""
_RATE = 3e-3
_HELD = 5
"""One line of so many is not learned from."""
_PLAIN = (128, 128, 128)
"""Widths of the plain network."""
_LEAST = 1e-3
"""How much less than most an output may spread and still count as much."""
_MORE = 0.25
"""How many units are added to each layer, as a share of those known: some were not found."""
_SLOPES = 0.1
"""What gradients weigh beside values, both relative to their spread."""


@dataclass(frozen=True)
class Units:
    """What points were divided by, and the matrix [K, K] that turns values back into the victim's."""

    size: float
    back: Tensor


@dataclass(frozen=True)
class Answers:
    """Points [n, d], values [n, K], gradients [n, K, d], in float32 and of size one; the line of each, [n]."""

    x: Tensor
    values: Tensor
    gradients: Tensor
    line: Tensor
    units: Units

    @staticmethod
    def of(x: Tensor, values: Tensor, gradients: Tensor, line: Tensor) -> Answers:
        """In units of how far points and values spread; outputs that move together tell classes apart by little."""
        size = float(x.square().mean().sqrt()) or 1.0
        middle = values - values.mean(0)
        spread, basis = torch.linalg.eigh(middle.T @ middle / len(values))
        length = spread.clamp(min=0).sqrt()
        length = length.clamp(min=max(float(length.max()) * _LEAST, 1e-300))
        ahead = basis / length
        shown = torch.einsum("nkd,kj->njd", gradients * size, ahead).float()
        return Answers((x / size).float(), (values @ ahead).float(), shown, line, Units(size, (basis * length).T))

    def __getitem__(self, rows: Tensor) -> Answers:
        return Answers(self.x[rows], self.values[rows], self.gradients[rows], self.line[rows], self.units)

    @property
    def held(self) -> Tensor:
        """Which are of lines to judge by, [n]: lines are of a kind one after the other, so every fifth."""
        return self.line % _HELD == _HELD - 1


@dataclass(frozen=True)
class Student:
    """Layers from the input to the outputs; weights named by `fixed` do not change, units named by `passing` pass."""

    layers: list[nn.Linear]
    fixed: list[Tensor]
    passing: list[Tensor]

    def __call__(self, x: Tensor) -> Tensor:
        """Values, [n, K]."""
        for layer, passing in zip(self.layers, self.passing, strict=False):
            z = layer(x)
            x = torch.where(passing, z, torch.relu(z))
        y: Tensor = self.layers[-1](x)
        return y

    def hold(self) -> None:
        """Keeps known weights out of the next step."""
        for layer, fixed in zip(self.layers, self.fixed, strict=True):
            assert layer.weight.grad is not None
            assert layer.bias.grad is not None
            layer.weight.grad[fixed] = 0.0
            layer.bias.grad[fixed.all(1)] = 0.0

    def handed_over(self, contrasts: Tensor, units: Units) -> DeepCopy:
        """The same as a copy with classes for outputs, in float64 and the victim's own units."""
        *hidden, output = [layer.double().requires_grad_(False) for layer in self.layers]
        hidden[0].weight /= units.size
        last = nn.Linear(output.in_features, contrasts.shape[1], dtype=torch.float64).requires_grad_(False)
        back = contrasts.T @ units.back.T
        last.weight.copy_(back @ output.weight)
        last.bias.copy_(back @ output.bias)
        return DeepCopy(hidden, self.passing, last)


def completed(known: Known, units: Units) -> Student:
    """The layers found, each with some units more that add nothing yet, and all weights free that are not known."""
    layers, fixed, passing, below = [], [], [], 0
    for height, layer in enumerate(known.stack.layers):
        wide, inputs = layer.weight.shape
        more = math.ceil(_MORE * wide)
        linear = nn.Linear(inputs + below, wide + more, dtype=torch.float64)
        sure = torch.zeros_like(linear.weight, dtype=torch.bool)
        with torch.no_grad():
            linear.weight[:wide] = 0.0
            linear.weight[:wide, :inputs] = layer.weight * (units.size if height == 0 else 1.0)
            linear.bias[:wide] = layer.bias
        sure[:wide, :inputs] = layer.known & ~layer.linear[:, None]
        layers.append(linear)
        fixed.append(sure)
        passing.append(torch.nn.functional.pad(layer.linear, (0, more)))
        below = more
    output = nn.Linear(known.weight.shape[1] + below, len(known.bias), dtype=torch.float64)
    with torch.no_grad():
        output.weight.zero_()
        ahead = torch.linalg.inv(units.back.T)
        output.weight[:, : known.weight.shape[1]] = ahead @ known.weight
        output.bias.copy_(ahead @ known.bias)
    fixed.append(torch.zeros_like(output.weight, dtype=torch.bool))
    return Student([layer.float() for layer in [*layers, output]], fixed, passing)


def plain(inputs: int, outputs: int) -> Student:
    """A network of which nothing is known."""
    widths = (inputs, *_PLAIN, outputs)
    layers = [nn.Linear(a, b) for a, b in pairwise(widths)]
    fixed = [torch.zeros_like(layer.weight, dtype=torch.bool) for layer in layers]
    return Student(layers, fixed, [torch.zeros(width, dtype=torch.bool) for width in _PLAIN])


def learn(student: Student, told: Answers, seed: int) -> None:
    """Fits values and gradients together; of these one random mixture of the outputs a point and step."""
    rows, draws = (~told.held).nonzero()[:, 0], torch.Generator().manual_seed(seed)
    slope = float(told.gradients.flatten(1).norm(dim=1).square().mean().sqrt()) or 1.0
    steps = min(_STEPS, max(1, len(rows) // _A_STEP))
    optimizer = torch.optim.Adam([part for layer in student.layers for part in layer.parameters()], lr=_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        some = told[rows[torch.randint(len(rows), (_BATCH,), generator=draws)]]
        x = some.x.requires_grad_(True)
        values = student(x)
        mixture = torch.randn(values.shape, generator=draws)
        (slopes,) = torch.autograd.grad((values * mixture).sum(), x, create_graph=True)
        turned = slopes - torch.einsum("nk,nkd->nd", mixture, some.gradients)
        off = (values - some.values).square().sum(1).mean()
        optimizer.zero_grad()
        loss: Tensor = off + _SLOPES * turned.square().sum(1).mean() / slope**2
        torch.autograd.backward(loss)
        student.hold()
        optimizer.step()
        schedule.step()


@torch.no_grad()
def misses(copy: nn.Module, told: Answers, contrasts: Tensor) -> tuple[float, float]:
    """On the lines to judge by: how often a copy names another class, and how far off it mostly is (at most 1)."""
    held = told[told.held]
    wanted = held.values.double() @ told.units.back
    shown = copy(held.x.double() * told.units.size)
    off = (shown @ contrasts.T - wanted).norm(dim=1) / (wanted - wanted.mean(0)).norm(dim=1).mean().clamp(min=1e-300)
    other = shown.argmax(1) != (wanted @ contrasts).argmax(1)
    return float(other.double().mean()), float(torch.nan_to_num(off, nan=1.0).clamp(max=1.0).mean())


def refit(copy: nn.Module, known: Known | None, told: Answers, contrasts: Tensor, seed: int) -> nn.Module:
    """The copy, or what learned better: whichever misses least on the lines to judge by."""
    if not bool(told.held.any()) or bool(told.held.all()):
        return copy
    with private_randomness(seed):
        students = [plain(told.x.shape[1], told.values.shape[1])]
        if known is not None and known.stack.layers:
            students.append(completed(known, told.units))
        for student in students:
            learn(student, told, seed)
    tried = [copy, *(student.handed_over(contrasts, told.units) for student in students)]
    return min(tried, key=lambda one: misses(one, told, contrasts))
