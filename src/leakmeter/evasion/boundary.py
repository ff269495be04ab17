"""The Boundary attack: a random walk along the decision boundary, by labels alone (Brendel et al. 2018, algorithm 1).

Each step proposes a move around the original at the same distance (`sideways`) and then a little towards it
(`inwards`); it is taken if the label still is the wanted one. Both lengths follow their own success rates.
"""

from __future__ import annotations

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

_PROBE_EVERY = 10  # steps between two looks at the sideways move alone
_SIDEWAYS_RATE, _SIDEWAYS_GAIN = 0.35, 0.3  # the success rate that a length is steered to, and how fast
_INWARDS_RATE, _INWARDS_GAIN = 0.2, 0.1
_LOOK_EVERY, _SETTLED = 250, 0.999  # an example is left where so many steps leave this much of its distance


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
        self.sideways, self.inwards = torch.full_like(self.distance, sideways), torch.full_like(self.distance, inwards)

    def step(self, directions: torch.Generator, *, probe: bool) -> None:
        """Proposes one move an example and takes it where the goal is still reached."""
        around = self._turned(directions)
        if probe:
            held = self.goal.reached(self.access.labels(self._inside(around)))
            self.sideways *= torch.exp(_SIDEWAYS_GAIN * (held.to(around) - _SIDEWAYS_RATE))
        points = self._inside(around * (1 - self.inwards)[:, None])
        offset = (points - self.x).flatten(1)
        distance = offset.norm(dim=1)
        reached = self.goal.reached(self.access.labels(points))
        self.inwards *= torch.exp(_INWARDS_GAIN * (reached.to(around) - _INWARDS_RATE))
        self.inwards.clamp_(max=0.5)
        taken = (reached & (distance < self.distance)).nonzero()[:, 0]
        self.offset[taken], self.distance[taken] = offset[taken], distance[taken]
        self.nearest.put(self.rows[taken], points[taken])

    def _turned(self, directions: torch.Generator) -> Tensor:
        """Each offset turned by a random angle: a step along the tangent, scaled back onto the sphere."""
        eta = torch.randn(self.offset.shape[1], generator=directions, device=directions.device).to(self.offset)
        along = self.offset @ eta / self.distance
        tangent = (eta.square().sum() - along.square()).clamp_min(1e-12).sqrt()
        scale = torch.rsqrt(1 + self.sideways.square())
        push = scale * self.sideways * self.distance / tangent
        return torch.addcmul((scale - push * along / self.distance)[:, None] * self.offset, push[:, None], eta)

    def _inside(self, offset: Tensor) -> Tensor:
        """The inputs at these offsets; the box can only bring them nearer to the originals."""
        return self.box.clamp(self.x + offset.view_as(self.x))

    def drop_the_settled(self) -> None:
        """Lets go of examples that hardly came nearer since the last look."""
        going = self.distance < _SETTLED * self.before
        if not bool(going.all()):
            for name in ("rows", "x", "offset", "distance", "sideways", "inwards"):
                setattr(self, name, getattr(self, name)[going])
            self.goal = self.goal.rows(going)
        self.before = self.distance.clone()
