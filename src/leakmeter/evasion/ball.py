"""The inputs an attacker may choose: those within `eps` of the original, in linf or l2, and inside the box.

Projections work in the type of the inputs, so they may end a rounding error outside the ball; `settle` is exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self

import torch
from torch import Tensor

from leakmeter.box import Box

Norm = Literal["linf", "l2"]
_INSIDE = 1e-6  # of eps: how far inside an l2 projection aims, more than single precision is usually off


@dataclass(frozen=True, eq=False)
class LinfBall:
    """Every feature within `eps` of the original: with the box one smaller box, so projecting is one clamp."""

    center: Tensor
    eps: float
    box: Box
    lower: Tensor
    upper: Tensor

    @classmethod
    def around(cls, center: Tensor, eps: float, box: Box) -> Self:
        """The ball about each row of `center`."""
        return cls(center, eps, box, box.clamp(center - eps), box.clamp(center + eps))

    def project(self, x: Tensor) -> Tensor:
        """The nearest point of ball and box."""
        return torch.clamp(x, self.lower, self.upper)

    def steepest(self, gradient: Tensor, x: Tensor) -> Tensor:  # noqa: ARG002
        """The step of length 1 that gains most along the gradient."""
        return gradient.sign()

    def sample(self, generator: torch.Generator) -> Tensor:
        """One uniform point of each ball, moved into the box."""
        unit = torch.empty_like(self.center).uniform_(-1, 1, generator=generator)
        return self.project(self.center + self.eps * unit)

    def distance(self, x: Tensor) -> Tensor:
        """How far each row is from its centre, in double precision."""
        return (x.double() - self.center.double()).abs().flatten(1).amax(1)

    def rows(self, index: Tensor) -> Self:
        """The balls of some examples."""
        return replace(self, center=self.center[index], lower=self.lower[index], upper=self.upper[index])


@dataclass(frozen=True, eq=False)
class L2Ball:
    """Within Euclidean distance `eps` of the original."""

    center: Tensor
    eps: float
    box: Box

    @classmethod
    def around(cls, center: Tensor, eps: float, box: Box) -> Self:
        """The ball about each row of `center`."""
        return cls(center, eps, box)

    def project(self, x: Tensor) -> Tensor:
        """A point of ball and box: scaled into the ball, then clamped, which only brings it closer."""
        offset = x - self.center
        scale = (self.eps * (1 - _INSIDE) / lengths(offset)).clamp_(max=1)
        return self.box.clamp(torch.addcmul(self.center, offset, scale))

    def steepest(self, gradient: Tensor, x: Tensor) -> Tensor:
        """The step of length 1 from `x` that gains most along the gradient; no step where there is none.

        Features that stand at the box and would leave it get no share of the length.
        """
        if self.box.low is not None:
            gradient = gradient.masked_fill((x <= self.box.low) & (gradient < 0), 0)
        if self.box.high is not None:
            gradient = gradient.masked_fill((x >= self.box.high) & (gradient > 0), 0)
        # A saturated model's gradient may be so small that its squares are 0.
        peak = gradient.abs().flatten(1).amax(1).clamp_min(torch.finfo(gradient.dtype).tiny)
        gradient = gradient / column(peak, gradient)
        return gradient / lengths(gradient)

    def sample(self, generator: torch.Generator) -> Tensor:
        """One uniform point of each ball, moved into the box."""
        n, d = len(self.center), self.center[0].numel()
        # Two coordinates left off a random direction of two more dimensions: uniform in the ball, from one draw.
        direction = self.center.new_empty(n, d + 2).normal_(generator=generator)
        offset = (direction / lengths(direction))[:, :d]
        return self.project(self.center + self.eps * offset.view_as(self.center))

    def distance(self, x: Tensor) -> Tensor:
        """How far each row is from its centre, in double precision."""
        return (x.double() - self.center.double()).flatten(1).square().sum(1).sqrt()

    def rows(self, index: Tensor) -> Self:
        """The balls of some examples."""
        return replace(self, center=self.center[index])


Ball = LinfBall | L2Ball
BALLS: dict[Norm, type[LinfBall] | type[L2Ball]] = {"linf": LinfBall, "l2": L2Ball}


def settle(ball: Ball, x: Tensor) -> Tensor:
    """The points with those outside the ball projected onto it, so that `ball.distance` is at most `eps`.

    Computed in double precision and rounded towards the centre; every point also ends exactly inside the box.
    """
    x = ball.box.clamp(x)
    outside = ball.distance(x) > ball.eps
    if not bool(outside.any()):
        return x
    center = ball.center[outside].double()
    point = type(ball).around(center, ball.eps, Box(None, None)).project(x[outside].double())
    rounded = point.to(x.dtype)
    farther = (rounded.double() - center).abs() > (point - center).abs()
    settled = x.clone()
    settled[outside] = torch.where(farther, torch.nextafter(rounded, ball.center[outside]), rounded)
    return settled


def lengths(offset: Tensor) -> Tensor:
    """The Euclidean length of each row, never 0, shaped to divide the rows."""
    norms = torch.linalg.vector_norm(offset.flatten(1), dim=1).clamp_min(torch.finfo(offset.dtype).tiny)
    return column(norms, offset)


def column(values: Tensor, like: Tensor) -> Tensor:
    """One number a row, shaped to multiply the rows of `like`."""
    return values.view(-1, *[1] * (like.dim() - 1))
