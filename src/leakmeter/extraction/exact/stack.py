"""The layers recovered so far, and what they say about points and gradients."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import ClassVar

import torch
from torch import Tensor

SAME = 1e-4
"""Rows at a smaller angle are one unit's."""


@dataclass
class Layer:
    """relu(weight y + bias) of the layer before it; `linear` units never switched and pass on what they are."""

    weight: Tensor
    bias: Tensor
    linear: Tensor
    """Which units have no ReLU, [h]."""
    known: Tensor
    """Which weights are known, [h, units below]; the others are zero here."""
    seen: ClassVar[tuple[Tensor, Tensor] | None] = None
    """The basis along which the rows were last asked for, and what that came to."""

    def along(self, basis: Tensor) -> Tensor:
        """The rows along the columns of a basis [d, r], computed once: a first layer never changes in place."""
        if self.seen is None or self.seen[0] is not basis:
            self.seen = basis, self.weight @ basis  # type: ignore[misc]
        return self.seen[1]

    @staticmethod
    def of(weight: Tensor, bias: Tensor, known: Tensor | None = None) -> Layer:
        """Units with a ReLU each."""
        everywhere = torch.ones_like(weight, dtype=torch.bool) if known is None else known
        return Layer(weight, bias, torch.zeros(len(bias), dtype=torch.bool), everywhere)

    @staticmethod
    def passing(weight: Tensor) -> Layer:
        """Units without a ReLU."""
        nothing = torch.ones(len(weight), dtype=torch.bool)
        return Layer(weight, weight.new_zeros(len(weight)), nothing, torch.ones_like(weight, dtype=torch.bool))

    def __getitem__(self, rows: Tensor | slice) -> Layer:
        return Layer(self.weight[rows], self.bias[rows], self.linear[rows], self.known[rows])

    def clone(self) -> Layer:
        """A layer that can be changed in place."""
        return Layer(*(getattr(self, f.name).clone() for f in fields(self)))

    def join(self, other: Layer) -> Layer:
        """The units of both."""
        return Layer(*(torch.cat([getattr(self, f.name), getattr(other, f.name)]) for f in fields(self)))

    def widened(self, more: int) -> Layer:
        """The same units above a layer that got `more` units, whose weights are not known."""
        weight = torch.nn.functional.pad(self.weight, (0, more))
        return Layer(weight, self.bias, self.linear, torch.nn.functional.pad(self.known, (0, more)))

    @property
    def units(self) -> int:
        """Units with a ReLU."""
        return int((~self.linear).sum())

    def turned(self, which: Tensor) -> Layer:
        """The same hyperplanes, some units facing the other way."""
        sign = torch.where(which, -1.0, 1.0).to(self.weight)
        return Layer(self.weight * sign[:, None], self.bias * sign, self.linear, self.known)

    def doubles(self) -> Tensor:
        """Which units are one that came before, up to scale, [h]: imprecise bends of one unit can look like two."""
        size = self.weight.norm(dim=1).clamp(min=1e-300)
        rows, bias = self.weight / size[:, None], self.bias / size
        cosine = rows @ rows.T
        apart = (bias[:, None] - torch.sign(cosine) * bias).abs()
        same = (cosine.abs() > 1 - SAME**2 / 2) & (apart <= SAME * (1 + bias.abs()))
        double: Tensor = torch.triu(same, diagonal=1).any(0) & ~self.linear
        return double

    def activate(self, z: Tensor) -> Tensor:
        """What the units pass on."""
        return torch.where(self.linear, z, torch.relu(z))

    def on(self, z: Tensor) -> Tensor:
        """Which units pass on their input, as 0 or 1."""
        return ((z > 0) | self.linear).to(z)


@dataclass
class Stack:
    """Layers from the input up."""

    layers: list[Layer] = field(default_factory=list)

    def inputs(self, x: Tensor) -> list[Tensor]:
        """What every layer compares with zero, [n, h] each."""
        found: list[Tensor] = []
        for layer in self.layers:
            found.append(torch.addmm(layer.bias, x, layer.weight.T))
            x = layer.activate(found[-1])
        return found

    def features(self, x: Tensor) -> Tensor:
        """What the last layer passes on; x itself without layers."""
        return self.layers[-1].activate(self.inputs(x)[-1]) if self.layers else x

    def visible(self, x: Tensor) -> Tensor:
        """Where the last layer's units depend on known weights only, [n, h]."""
        below = Stack(self.layers[:-1]).features(x)
        return (below != 0).to(x) @ (~self.layers[-1].known).T.to(x) == 0

    def slopes(self, x: Tensor, basis: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """What the last layer compares with zero, [n, h], and its gradient, [n, h, d] or along a `basis`, [n, h, r]."""
        zs, first = self.inputs(x), self.layers[0]
        gradient = (first.weight if basis is None else first.along(basis)).expand(len(x), -1, -1)
        for layer, below, z in zip(self.layers[1:], self.layers, zs, strict=False):
            gradient = layer.weight @ (below.on(z)[:, :, None] * gradient)
        return zs[-1], gradient

    def slope(self, x: Tensor, unit: int, basis: Tensor) -> tuple[Tensor, Tensor]:
        """The same of one unit of the last layer, [n] and [n, r], from the top down: that never needs all gradients."""
        zs = self.inputs(x)
        row = self.layers[-1].weight[unit].expand(len(x), -1)
        for height in range(len(self.layers) - 2, -1, -1):
            layer = self.layers[height]
            row = (row * layer.on(zs[height])) @ (layer.weight if height else layer.along(basis))
        return zs[-1][:, unit], row if len(self.layers) > 1 else row @ basis
