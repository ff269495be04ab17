"""Learns what the algebra left open of the layers it found: weights no bend showed, and units no line met.

What is known stays as it is. Each layer is given some units more, which add nothing at first, and what is free is
fitted to values and gradients together; at last weights are solved for where that is linear.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from leakmeter.extraction.exact.copy import DeepCopy
from leakmeter.extraction.exact.fresh import Answers
from leakmeter.extraction.exact.jacobians import solve_weights
from leakmeter.extraction.exact.output import Known
from leakmeter.seeds import private_randomness, stream
from leakmeter.training.loop import Recipe

_MORE = 0.25
"""How many units are added to each layer, as a share of those known: some were not found."""
_BATCH, _STEPS, _FEWEST = 128, 4000, 300
_RATE = 3e-3
_SLOPES = 0.3
"""What gradients weigh beside values, both relative to their size."""


def completed(known: Known, told: Answers, contrasts: Tensor, seed: int) -> DeepCopy:
    """The layers found, with what was missing learned from the answers."""
    size = float(told.x.square().mean().sqrt()) or 1.0
    scale = float((told.scores - told.scores.mean(0)).square().sum(1).mean().sqrt()) or 1.0
    with private_randomness(seed):
        copy, fixed = _widened(known, contrasts, size, scale)
    held = known.weight.shape[1] if known.sure else 0
    scaled = _scaled(told, size, scale)
    _fit(copy.float(), fixed, held, scaled, seed)
    solve_weights(copy, fixed[-1], scaled)
    copy = copy.double().requires_grad_(False)
    copy.hidden.weight /= size
    copy.output.weight.mul_(scale)
    copy.output.bias.mul_(scale)
    return copy


def _scaled(told: Answers, size: float, scale: float) -> Answers:
    """Points and scores of size one."""
    slopes = None if told.gradients is None else told.gradients * (size / scale)
    return Answers((told.x / size).float(), (told.scores / scale).float(), slopes)


def _widened(known: Known, contrasts: Tensor, size: float, scale: float) -> tuple[DeepCopy, list[Tensor]]:
    """The copy with free units beside those known, for points and scores of size one; which weights stay, a layer."""
    layers, fixed, passing, below = [], [], [], 0
    for height, layer in enumerate(known.stack.layers):
        wide, inputs = layer.weight.shape
        more = math.ceil(_MORE * wide)
        linear = nn.Linear(inputs + below, wide + more, dtype=torch.float64)
        stays = torch.zeros_like(linear.weight, dtype=torch.bool)
        with torch.no_grad():
            linear.weight[:wide] = 0.0
            linear.weight[:wide, :inputs] = layer.weight * (size if height == 0 else 1.0)
            linear.bias[:wide] = layer.bias
        stays[:wide, :inputs] = layer.known & ~layer.linear[:, None]
        layers.append(linear)
        fixed.append(stays)
        passing.append(nn.functional.pad(layer.linear, (0, more)))
        below = more
    output = nn.Linear(known.weight.shape[1] + below, contrasts.shape[1], dtype=torch.float64)
    with torch.no_grad():
        output.weight.zero_()
        output.weight[:, : known.weight.shape[1]] = contrasts.T @ known.weight / scale
        output.bias.copy_(contrasts.T @ known.bias / scale)
    return DeepCopy(layers, passing, output), fixed


def _fit(copy: DeepCopy, fixed: list[Tensor], held: int, told: Answers, seed: int) -> None:
    """Adam on values and gradients, of these one random mixture of the scores a point and step.

    Of the output weights so many columns are `held`.
    """
    draws, steps = stream(seed, "completed"), min(_STEPS, max(_FEWEST, len(told)))
    recipe = Recipe(steps=steps, lr=_RATE, schedule="cyclic", warmup=0.1)
    optimizer = recipe.make_optimizer(copy)
    slope = 1.0 if told.gradients is None else float(told.gradients.flatten(1).square().sum(1).mean()) or 1.0
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = recipe.rate(step / steps)
        some = told[torch.randint(len(told), (_BATCH,), generator=draws)]
        x = some.x.requires_grad_(True)
        scores = copy(x)
        loss: Tensor = (scores - some.scores).square().sum(1).mean()
        if some.gradients is not None:
            mixture = torch.randn(scores.shape, generator=draws)
            (slopes,) = torch.autograd.grad((scores * mixture).sum(), x, create_graph=True)
            turned = slopes - torch.einsum("nc,ncd->nd", mixture, some.gradients)
            loss = loss + _SLOPES * turned.square().sum(1).mean() / slope
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        for layer, stays in zip(copy.layers, fixed, strict=True):
            assert isinstance(layer, nn.Linear)
            _hold(layer, stays)
        assert copy.output.weight.grad is not None
        copy.output.weight.grad[:, :held] = 0.0
        optimizer.step()


def _hold(layer: nn.Linear, stays: Tensor) -> None:
    """Keeps known weights out of the next step."""
    assert layer.weight.grad is not None
    assert layer.bias.grad is not None
    layer.weight.grad[stays] = 0.0
    layer.bias.grad[stays.any(1)] = 0.0
