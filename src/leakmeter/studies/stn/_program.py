"""The linear program that the dual bound solves, put to a solver: small dense networks and the linf ball."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
from scipy.optimize import linprog
from torch import Tensor, nn

from leakmeter.certificates.dual import worst_margins
from leakmeter.seeds import stream

Lines = Literal["parallel", "triangle"]
"""What a unit lies between: Wong and Kolter's two parallel lines, or the convex hull of the ReLU."""
_SIZES = ([4, 6, 3], [3, 5, 5, 2], [5, 4, 4, 4, 3])


def random_network(sizes: list[int], seed: int) -> nn.Sequential:
    """Dense layers with ReLU between them, in double precision."""
    generator = stream(seed, "network")
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layer = nn.Linear(inputs, outputs).double()
        with torch.no_grad():
            layer.weight.copy_(torch.randn(layer.weight.shape, generator=generator) / inputs**0.5)
            layer.bias.copy_(torch.randn(layer.bias.shape, generator=generator) * 0.3)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def off_by(seed: int) -> dict[str, Any]:
    """How far the dual bound is from the program's optimum, at most; how far, least and most, below the hull's."""
    sizes = _SIZES[seed % len(_SIZES)]
    network = random_network(sizes, seed)
    x = torch.randn(sizes[0], generator=stream(seed, "point"), dtype=torch.float64)
    y, eps = seed % 2, 0.1 + 0.05 * (seed % 20)
    found = worst_margins(network, x[None], torch.tensor([y]), eps)[0].detach().numpy()
    kinds: tuple[Lines, ...] = ("parallel", "triangle")
    parallel, triangle = (_optima(Program(network, x, eps, lines), y, len(found)) for lines in kinds)
    hull = triangle - found
    return {"difference": float(np.abs(found - parallel).max()), "under_hull": [float(hull.min()), float(hull.max())]}


def _optima(program: Program, y: int, classes: int) -> np.ndarray:
    c = np.eye(classes)
    return np.array([program.least(c[y] - c[other]) for other in range(classes)])


class Program:
    """The values of all layers as variables; the bounds of the units come from the same programs, layer by layer."""

    def __init__(self, network: nn.Sequential, x: Tensor, eps: float, lines: Lines) -> None:
        self._affine = [
            (m.weight.detach().numpy(), m.bias.detach().numpy()) for m in network if isinstance(m, nn.Linear)
        ]
        self._ball = [(float(v) - eps, float(v) + eps) for v in x]
        self._lines = lines
        self._widths = [len(x)]
        self._equal: list[tuple[np.ndarray, float]] = []
        self._below: list[tuple[np.ndarray, float]] = []
        for weight, bias in self._affine[:-1]:
            self._add_layer(weight, bias)

    def least(self, c: np.ndarray) -> float:
        """The least c·f."""
        weight, bias = self._affine[-1]
        return self._solve(self._of_last(c @ weight), float(c @ bias))

    def _of_last(self, row: np.ndarray) -> np.ndarray:
        """Coefficients of the last layer's values as those of all variables."""
        return np.concatenate([np.zeros(sum(self._widths[:-1])), row])

    def _add_layer(self, weight: np.ndarray, bias: np.ndarray) -> None:
        rows = [self._of_last(row) for row in weight]
        bounds = [
            (self._solve(z, shift), -self._solve(-z, -shift)) for z, shift in zip(rows, bias.tolist(), strict=True)
        ]
        first = sum(self._widths)
        self._widths.append(len(bias))
        for unit, (z, shift, (low, high)) in enumerate(zip(rows, bias.tolist(), bounds, strict=True)):
            value = np.zeros(first + unit + 1)
            value[-1] = 1
            self._add_unit(value, np.pad(z, (0, len(value) - len(z))), shift, low, high)

    def _add_unit(self, value: np.ndarray, z: np.ndarray, shift: float, low: float, high: float) -> None:
        if high <= 0:
            self._equal.append((value, 0.0))
        elif low >= 0:
            self._equal.append((value - z, shift))
        else:
            slope = high / (high - low)
            self._below.append((value - slope * z, slope * (shift - low)))
            if self._lines == "parallel":
                self._below.append((slope * z - value, -slope * shift))
            else:
                self._below += [(-value, 0.0), (z - value, -shift)]

    def _solve(self, objective: np.ndarray, constant: float) -> float:
        n = sum(self._widths)

        def matrix(rows: list[tuple[np.ndarray, float]]) -> np.ndarray | None:
            return np.array([np.pad(row, (0, n - len(row))) for row, _ in rows]) if rows else None

        found = linprog(
            np.pad(objective, (0, n - len(objective))),
            A_ub=matrix(self._below),
            b_ub=[value for _, value in self._below] or None,
            A_eq=matrix(self._equal),
            b_eq=[value for _, value in self._equal] or None,
            bounds=self._ball + [(None, None)] * (n - len(self._ball)),
            method="highs",
        )
        assert found.fun is not None, found.message
        return float(found.fun) + constant
