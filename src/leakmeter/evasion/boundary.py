"""The Boundary attack: a random walk along the decision boundary, by labels alone (Brendel et al. 2018, algorithm 1).

Each step proposes a move around the original at the same distance (`sideways`) and then a little towards it
(`inwards`); it is taken if the label still is the wanted one. Both lengths follow their own success rates. Beyond the
paper, the walk has a drift: it remembers which directions were accepted and which were not, and leans that way.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from pydantic import ConfigDict, Field
from torch import Tensor

from leakmeter.errors import BudgetExhausted
from leakmeter.evasion.access import Labels
from leakmeter.evasion.attack import Candidates, DecisionAttack, Problem
from leakmeter.evasion.ball import Norm
from leakmeter.evasion.starts import Nearest, bisect, find_starts
from leakmeter.seeds import stream

_PROBE_EVERY = 20  # steps between two looks at the sideways move alone
_SIDEWAYS_RATE, _SIDEWAYS_GAIN = 0.6, 0.5  # the success rate that a length is steered to, and how fast
_INWARDS_RATE, _INWARDS_GAIN = 0.4, 0.1
_DRIFT, _MEMORY = 0.5, 0.999  # the drift's share of a direction, and what it keeps of itself from step to step
_LOOK_EVERY, _SETTLED = 250, 0.99  # an example is left where so many steps leave this much of its distance


class Boundary(DecisionAttack):
    """All examples walk at once; they share each step's random direction, but no example depends on another."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    norms: ClassVar[tuple[Norm, ...]] = ("l2",)
    needs_eps: ClassVar[bool] = False

    steps: int = Field(default=5000, ge=0)
    tries: int = Field(default=25, ge=0)
    """Random inputs tried as starting points, before other originals are."""
    starts: Tensor | None = None
    """Inputs to start from instead, such as examples of the target class."""
    sideways: float = Field(default=0.05, gt=0)
    """The first sideways move, in units of the distance to the original."""
    inwards: float = Field(default=0.05, gt=0, lt=1)
    """The first move towards the original, in the same units."""

    def run(self, problem: Problem[Labels]) -> Candidates:
        """Finds starting points, then walks. An exhausted budget ends it, and what was found by then counts."""
        nearest = Nearest.none(problem.x)
        why = "no starting point was found; pass starts=, inputs that the model takes for the wanted class"
        try:
            find_starts(problem, nearest, self.tries, self.starts)
            bisect(problem, nearest)
            self._walk(problem, nearest)
        except BudgetExhausted:
            why = "the query budget ran out before a starting point was found"
        return Candidates(nearest.examples, dict.fromkeys((~nearest.found).nonzero()[:, 0].tolist(), why))

    def _walk(self, problem: Problem[Labels], nearest: Nearest) -> None:
        walk = _Walk(problem, nearest, self.sideways, self.inwards)
        directions = stream(problem.seed, "boundary", device=problem.x.device)
        with problem.progress.task("walking", self.steps) as task:
            for step in range(self.steps):
                if step % _LOOK_EVERY == 0:
                    walk.drop_the_settled()
                if len(walk.rows) == 0:
                    break
                walk.step(directions, probe=step % _PROBE_EVERY == 0)
                task.advance()


class _Walk:
    """The examples still walking, as flat offsets from their originals."""

    def __init__(self, problem: Problem[Labels], nearest: Nearest, sideways: float, inwards: float) -> None:
        self.access, self.box, self.nearest = problem.access, problem.ball.box, nearest
        self.rows = nearest.walkable(problem.x)
        self.x, self.goal = problem.x[self.rows], problem.goal.rows(self.rows)
        self.offset = (nearest.examples[self.rows] - self.x).flatten(1)
        self.distance = self.offset.norm(dim=1)
        self.before = torch.full_like(self.distance, torch.inf)
        self.drift = torch.zeros_like(self.offset)
        self.sideways, self.inwards = torch.full_like(self.distance, sideways), torch.full_like(self.distance, inwards)

    def step(self, directions: torch.Generator, *, probe: bool) -> None:
        """Proposes one move an example and takes it where the goal is still reached."""
        eta = torch.randn(self.offset.shape[1], generator=directions, device=directions.device).to(self.offset)
        eta /= eta.norm()
        around = self._turned(eta)
        if probe:
            held = self.goal.reached(self.access.labels(self._inside(around)))
            self.sideways *= torch.exp(_SIDEWAYS_GAIN * (held.to(around) - _SIDEWAYS_RATE))
        points = self._inside(around.mul_((1 - self.inwards)[:, None]))
        reached = self.goal.reached(self.access.labels(points))
        surprise = reached.to(around) - _INWARDS_RATE
        self.inwards.mul_(torch.exp(_INWARDS_GAIN * surprise)).clamp_(max=0.5)
        self.drift.mul_(_MEMORY).addr_(surprise, eta)
        self._take(reached.nonzero()[:, 0], points)

    def _turned(self, eta: Tensor) -> Tensor:
        """Each offset turned around its original: a step along the tangent, scaled back onto the sphere.

        The direction mixes `eta` and the drift, and the result is a combination of these two and the offset: its
        coefficients follow from their inner products, without a further vector for each example.
        """
        square = self.distance.square()
        drift_square = self.drift.square().sum(1)
        a, b = math.sqrt(1 - _DRIFT**2), _DRIFT * torch.rsqrt(drift_square.clamp_min(1e-12))
        along = (a * (self.offset @ eta) + b * (self.drift * self.offset).sum(1)) / square
        tangent = a**2 + 2 * a * b * (self.drift @ eta) + b.square() * drift_square - along.square() * square
        scale = torch.rsqrt(1 + self.sideways.square())
        push = scale * self.sideways * self.distance * torch.rsqrt(tangent.clamp_min(1e-12))
        kept: Tensor = self.offset * (scale - push * along)[:, None]
        return kept.addr_(push * a, eta).addcmul_(self.drift, (push * b)[:, None])

    def _take(self, rows: Tensor, points: Tensor) -> None:
        """Moves these rows, except where rounding would move them away from the original."""
        offset = (points[rows] - self.x[rows]).flatten(1)
        distance = offset.norm(dim=1)
        nearer = distance < self.distance[rows]
        rows = rows[nearer]
        self.offset[rows], self.distance[rows] = offset[nearer], distance[nearer]
        self.nearest.put(self.rows[rows], points[rows])

    def _inside(self, offset: Tensor) -> Tensor:
        """The inputs at these offsets; the box can only bring them nearer to the originals."""
        return self.box.clamp(self.x + offset.view_as(self.x))

    def drop_the_settled(self) -> None:
        """Lets go of examples that hardly came nearer since the last look."""
        going = self.distance < _SETTLED * self.before
        if not bool(going.all()):
            for name in ("rows", "x", "offset", "drift", "distance", "sideways", "inwards"):
                setattr(self, name, getattr(self, name)[going])
            self.goal = self.goal.rows(going)
        self.before = self.distance.clone()
