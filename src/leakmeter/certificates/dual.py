"""The dual bound of Wong and Kolter (2018) for ReLU networks: what nothing within a ball can push a score below.

A linear function c·z of a layer's values is bounded from below by carrying its coefficients back to the input. Through
an affine layer that is exact. A ReLU whose input may lie on both sides of zero, between l < 0 and u > 0,
is replaced by two parallel lines of slope d = u / (u - l): d·z below and d·z - d·l above; a positive coefficient takes
the lower line, a negative one the upper. At the input the ball contributes -ε times the dual norm of what has arrived.
The bounds l and u of each layer come from the same procedure on the layers before it.

The result is the optimum of the linear program with those two lines for each unit (tests solve it), and everything is
differentiable, so a network can be trained for it: `dual_loss`.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Literal, Protocol

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from leakmeter.errors import NotApplicable, UsageError
from leakmeter.models.inputs import Normalize

Ball = Literal["linf", "l2"]
_ROWS = 256  # coefficient vectors carried back at once, unless gradients are wanted


class _Affine(Protocol):
    """One affine step of a network."""

    def forward(self, x: Tensor) -> Tensor:
        """Values to values, [n, *shape]."""

    def back(self, c: Tensor) -> tuple[Tensor, Tensor | float]:
        """Coefficients [n, *shape out] to those of the step before, and what the bias adds, [n]."""


class _Linear:
    def __init__(self, layer: nn.Linear) -> None:
        self._layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self._layer(x)  # type: ignore[no-any-return]

    def back(self, c: Tensor) -> tuple[Tensor, Tensor | float]:
        bias = self._layer.bias
        return c @ self._layer.weight, 0.0 if bias is None else c @ bias


class _Convolution:
    def __init__(self, layer: nn.Conv2d) -> None:
        if layer.padding_mode != "zeros" or isinstance(layer.padding, str):
            raise NotApplicable(f"the dual bound needs convolutions padded with zeros by a number, got {layer}")
        self._layer = layer
        self._padding = [int(side) for side in layer.padding]
        self._size = torch.Size()

    def forward(self, x: Tensor) -> Tensor:
        self._size = x.shape[2:]
        return self._layer(x)  # type: ignore[no-any-return]

    def back(self, c: Tensor) -> tuple[Tensor, Tensor | float]:
        layer = self._layer
        grown = F.conv_transpose2d(
            c, layer.weight, None, layer.stride, self._padding, self._missing(c), layer.groups, layer.dilation
        )
        return grown, 0.0 if layer.bias is None else c.sum((2, 3)) @ layer.bias

    def _missing(self, c: Tensor) -> list[int]:
        """Rows and columns that the stride left over."""
        layer, sides = self._layer, []
        for axis in (0, 1):
            reach = layer.dilation[axis] * (layer.kernel_size[axis] - 1) + 1
            kept = (c.shape[2 + axis] - 1) * layer.stride[axis] - 2 * self._padding[axis] + reach
            sides.append(self._size[axis] - kept)
        return sides


class _Flat:
    def __init__(self) -> None:
        self._shape = torch.Size()

    def forward(self, x: Tensor) -> Tensor:
        self._shape = x.shape[1:]
        return x.flatten(1)

    def back(self, c: Tensor) -> tuple[Tensor, Tensor | float]:
        return c.reshape(-1, *self._shape), 0.0


class _Normal:
    def __init__(self, layer: Normalize) -> None:
        self._layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self._layer(x)  # type: ignore[no-any-return]

    def back(self, c: Tensor) -> tuple[Tensor, Tensor | float]:
        shape = (1, -1, *(1,) * (c.dim() - 2))
        c = c / self._layer.std.view(shape)
        return c, -(c * self._layer.mean.view(shape)).flatten(1).sum(1)


@dataclass
class _Relu:
    """The lines of one layer's units, once their bounds are known: [n, 1, *shape] each."""

    slope: Tensor = field(default_factory=lambda: torch.empty(0))
    lift: Tensor = field(default_factory=lambda: torch.empty(0))

    def between(self, low: Tensor, high: Tensor) -> None:
        """Takes the bounds, [n, *shape]."""
        crossing = (low < 0) & (high > 0)
        width = torch.where(crossing, high - low, 1.0)
        slope = torch.where(crossing, high / width, (low >= 0).to(low))
        self.slope, self.lift = slope[:, None], torch.where(crossing, -slope * low, 0.0)[:, None]


def worst_margins(network: nn.Module, x: Tensor, y: Tensor, eps: float, norm: Ball = "linf") -> Tensor:
    """At least how far the score of class `y` stays above each other class's, [n, classes]; 0 for `y` itself.

    Args:
        network: an `nn.Sequential` of linear, convolutional, ReLU, flatten and normalising layers.
        x: inputs, [n, *shape].
        y: their classes.
        eps: the ball's radius.
        norm: the ball's norm.
    """
    if eps < 0 or norm not in ("linf", "l2"):
        raise UsageError(f"expected eps of at least 0 and the norm linf or l2, got eps={eps} and '{norm}'")
    steps = _steps(network)
    bounds = _Bounds(steps, x, eps, norm)
    outputs = bounds.prepare()
    classes = outputs.shape[1]
    rows = torch.eye(classes, device=x.device, dtype=x.dtype)
    return bounds.below(rows[y][:, None] - rows, len(steps)).scatter(1, y[:, None], 0.0)


@torch.no_grad()
def dual_certified(network: nn.Module, x: Tensor, y: Tensor, eps: float, norm: Ball = "linf") -> Tensor:
    """Which inputs provably keep the class `y` within the ball, computed in double precision, [n] of booleans."""
    exact = deepcopy(network).double().eval()
    margins = [
        worst_margins(exact, row[None].double(), label[None], eps, norm) for row, label in zip(x, y, strict=True)
    ]
    others = torch.cat(margins).scatter(1, y[:, None], torch.inf)
    return others.amin(1) > 0


def dual_loss(network: nn.Module, x: Tensor, y: Tensor, eps: float, norm: Ball = "linf") -> Tensor:
    """Cross entropy of the worst case (WSMK18, equation 13): an upper bound on that of any input in the ball."""
    return F.cross_entropy(-worst_margins(network, x, y, eps, norm), y)


class _Bounds:
    """The steps of a network around some inputs."""

    def __init__(self, steps: Sequence[_Affine | _Relu], x: Tensor, eps: float, norm: Ball) -> None:
        self._steps, self._x, self._eps, self._norm = steps, x, eps, norm

    def prepare(self) -> Tensor:
        """Finds the bounds of every ReLU, first to last; returns the outputs at the inputs themselves."""
        values = self._x
        for place, step in enumerate(self._steps):
            if isinstance(step, _Relu):
                step.between(*self._around(place, values))
                values = values.relu()
            else:
                values = step.forward(values)
        return values

    def below(self, c: Tensor, place: int) -> Tensor:
        """The least that each c·z of the values before step `place` can be, [n, m]; c is [n, m, *shape]."""
        return self._carry(c, place)[0]

    def _around(self, place: int, values: Tensor) -> tuple[Tensor, Tensor]:
        """Bounds of every value before step `place`; up to the first ReLU all inputs have the same about them."""
        if any(isinstance(step, _Relu) for step in self._steps[:place]):
            return self._both(place, values.shape[1:])
        alone = _Bounds(self._steps, torch.zeros_like(self._x[:1]), self._eps, self._norm)
        low, high = alone._both(place, values.shape[1:])
        return values - (high - low) / 2, values + (high - low) / 2

    def _both(self, place: int, shape: torch.Size) -> tuple[Tensor, Tensor]:
        """Bounds of every value before step `place`, [n, *shape]."""
        units, n = shape.numel(), len(self._x)
        size = units if torch.is_grad_enabled() else _ROWS
        eye = torch.eye(units, device=self._x.device, dtype=self._x.dtype).reshape(units, *shape)
        parts = [self._carry(rows.expand(n, *rows.shape), place) for rows in torch.split(eye, size)]
        low, high = (torch.cat(side, 1).reshape(n, *shape) for side in zip(*parts, strict=True))
        return low, high

    def _carry(self, c: Tensor, place: int) -> tuple[Tensor, Tensor]:
        """The least and the most of c·z, carried back to the input."""
        n, m = c.shape[:2]
        middle = low = high = torch.zeros(n, m, device=c.device, dtype=c.dtype)
        for step in reversed(self._steps[:place]):
            if isinstance(step, _Relu):
                low = low + (c.clamp_max(0) * step.lift).flatten(2).sum(2)
                high = high + (c.clamp_min(0) * step.lift).flatten(2).sum(2)
                c = c * step.slope
            else:
                back, bias = step.back(c.flatten(0, 1))
                c = back.reshape(n, m, *back.shape[1:])
                middle = middle + (bias.reshape(n, m) if isinstance(bias, Tensor) else bias)
        flat = c.flatten(2)
        middle = middle + (flat @ self._x.flatten(1)[:, :, None])[:, :, 0]
        reach = self._eps * (flat.abs().sum(2) if self._norm == "linf" else flat.norm(dim=2))
        return middle + low - reach, middle + high + reach


def _steps(network: nn.Module) -> list[_Affine | _Relu]:
    steps: list[_Affine | _Relu] = []
    for layer in network if isinstance(network, nn.Sequential) else [network]:
        if isinstance(layer, nn.Sequential):
            steps += _steps(layer)
        elif isinstance(layer, nn.ReLU):
            steps.append(_Relu())
        elif not isinstance(layer, nn.Identity | nn.Dropout):
            steps.append(_step(layer))
    return steps


def _step(layer: nn.Module) -> _Affine:
    if isinstance(layer, nn.Linear):
        return _Linear(layer)
    if isinstance(layer, nn.Conv2d):
        return _Convolution(layer)
    if isinstance(layer, nn.Flatten):
        return _Flat()
    if isinstance(layer, Normalize):
        return _Normal(layer)
    raise NotApplicable(
        f"the dual bound is for sequences of linear, convolutional, ReLU and flatten layers, got {type(layer).__name__}"
    )
