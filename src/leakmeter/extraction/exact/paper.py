"""The paper's algorithm: Algorithm 1 with 1a (binary search along a line) and 1b (signs by a linear system).

For f(x) = w^T relu(A x) of one output, without biases, with h told in advance and the rows of A linearly independent,
on inputs without limits. Two misprints are read as meant. In 1a, line 17, failure is thrown only if neither half of
the interval changes. In Theorem 2, delta = 3^(4/3) (epsilon/c)^(2/3) h^2 + 2h/(pi l), with a plus: solved for epsilon
it needs delta > 2h/(pi l), so l is raised above the paper's h^2 where that would take more than half of delta.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from leakmeter.errors import Inconclusive
from leakmeter.extraction.exact.chebyshev import query_points

Gradient = Callable[[Tensor], Tensor]
"""The gradient of f at one point, [d] -> [d]."""
Values = Callable[[Tensor], Tensor]
"""Values of f, [n, d] -> [n]."""


class PaperFailure(Inconclusive):
    """The algorithm's own "throw Failure": nothing was recovered."""


@dataclass(frozen=True)
class SearchRange:
    """How far and how finely to search, from Theorem 2."""

    h: int
    delta: float
    c: float

    @property
    def reach(self) -> float:
        """`l`: change points lie within [-l, l]."""
        return max(self.h**2, 4 * self.h / (math.pi * self.delta))

    @property
    def epsilon(self) -> float:
        """Change points lie at least so far apart."""
        spacing = self.delta - 2 * self.h / (math.pi * self.reach)
        return self.c * math.pow(spacing / (3 ** (4 / 3) * self.h**2), 1.5)


def recover_z(gradient: Gradient, d: int, search: SearchRange, generator: torch.Generator, same: float) -> Tensor:
    """Algorithm 1a: rows w_i A_i up to sign, [h, d]. Gradients closer than `same` (relatively) count as equal."""
    u, v = torch.randn(2, d, generator=generator, dtype=torch.float64)
    t, right = -search.reach, search.reach
    at_t, at_right = gradient(u + t * v), gradient(u + right * v)
    rows = []
    for i in range(search.h):
        if not _differ(at_t, at_right, same):
            raise PaperFailure(
                f"the paper's search found {i} of {search.h} change points: rows are collinear, duplicate or "
                f"closer than epsilon = {search.epsilon:.1e}, or some lie beyond l = {search.reach:.1e}"
            )
        t, before, after = _binary_search(lambda s: gradient(u + s * v), t, at_t, right, at_right, search.epsilon, same)
        rows.append(after - before)
        at_t = after
    if _differ(at_t, at_right, same):
        raise PaperFailure(f"the paper's search found more than the {search.h} change points it was told to expect")
    return torch.stack(rows)


def _binary_search(
    gradient: Callable[[float], Tensor],
    left: float,
    at_left: Tensor,
    right: float,
    at_right: Tensor,
    epsilon: float,
    same: float,
) -> tuple[float, Tensor, Tensor]:
    """The first change point: a position just behind it, and the gradients on both sides."""
    while right - left > epsilon:
        middle = (left + right) / 2
        if not left < middle < right:
            raise PaperFailure(f"epsilon = {epsilon:.1e} is finer than the arithmetic is at t = {middle:.1e}")
        at_middle = gradient(middle)
        if _differ(at_left, at_middle, same):
            right, at_right = middle, at_middle
        elif _differ(at_middle, at_right, same):
            left, at_left = middle, at_middle
        else:
            raise PaperFailure("the gradients of both halves of an interval agree though those of its ends do not")
    return right, at_left, at_right


def recover_s(values: Values, Z: Tensor, generator: torch.Generator) -> Tensor:
    """Algorithm 1b: s in {-1, 0, 1}^2h with f(x) = [relu(Zx), relu(-Zx)] s."""
    h = len(Z)
    X = query_points(Z, torch.rand(Z.shape[1], generator=generator, dtype=torch.float64))
    if X is None:
        raise PaperFailure("no points with independent activations: the rows found are linearly dependent")
    on, off = torch.relu(Z @ X).T, torch.relu(-Z @ X).T
    M = torch.cat([torch.cat([on, off], dim=1), torch.cat([off, on], dim=1)])
    exact = torch.linalg.solve(M, values(torch.cat([X, -X], dim=1).T))
    s: Tensor = exact.round()
    if float((s - exact).abs().max()) > 0.1 or not bool((s.abs().reshape(2, h).sum(0) == 1).all()):
        raise PaperFailure("the signs solved for are not -1, 0 or 1: the rows found are not those of the network")
    return s


def _differ(one: Tensor, other: Tensor, same: float) -> bool:
    return float((one - other).norm()) > same * max(float(one.norm()), float(other.norm()))
