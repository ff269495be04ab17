"""Where a decision-based attack starts: an input on the wanted side, moved to the boundary next to the original."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from leakmeter.box import ROUNDING
from leakmeter.errors import UsageError
from leakmeter.evasion.access import Labels
from leakmeter.evasion.attack import Problem
from leakmeter.evasion.ball import column
from leakmeter.seeds import stream

_BISECTIONS = 10
_POOL = 1000  # originals that may serve as starting points of other examples


@dataclass(eq=False)
class Nearest:
    """The nearest broken example found so far; the original where there is none."""

    examples: Tensor
    found: Tensor
    """Whether the goal was reached at all."""

    @classmethod
    def none(cls, x: Tensor) -> Nearest:
        """Nothing found yet."""
        return cls(x.clone(), torch.zeros(len(x), dtype=torch.bool, device=x.device))

    def put(self, rows: Tensor, examples: Tensor) -> None:
        """Enters broken examples for these rows."""
        self.examples[rows], self.found[rows] = examples, True

    def walkable(self, x: Tensor) -> Tensor:
        """The rows with something found that is not the original itself."""
        return (self.found & (self.examples != x).flatten(1).any(1)).nonzero()[:, 0]


def find_starts(problem: Problem[Labels], nearest: Nearest, tries: int, starts: Tensor | None) -> None:
    """Looks for an input on the wanted side for each example: random ones, then other originals, or only `starts`."""
    labels = problem.access.labels(problem.x)
    broken = problem.goal.reached(labels).nonzero()[:, 0]
    nearest.put(broken, problem.x[broken])
    if starts is None:
        _try_noise(problem, nearest, tries)
        _try_pool(problem, nearest, problem.x[:_POOL], labels[:_POOL])
        return
    if starts.shape[1:] != problem.x.shape[1:]:
        raise UsageError(f"expected starts like the inputs {tuple(problem.x.shape[1:])}, got {tuple(starts.shape[1:])}")
    starts = problem.ball.box.admit(starts.to(problem.x), ROUNDING)
    _try_pool(problem, nearest, starts, problem.access.labels(starts))


def bisect(problem: Problem[Labels], nearest: Nearest) -> None:
    """Moves each start along the line to its original, up to the boundary."""
    rows = nearest.walkable(problem.x)
    if len(rows) == 0:
        return
    x, start, goal = problem.x[rows], nearest.examples[rows], problem.goal.rows(rows)
    right, wrong = torch.zeros(len(rows), device=x.device), torch.ones(len(rows), device=x.device)
    for _ in range(_BISECTIONS):
        middle = (right + wrong) / 2
        points = problem.ball.box.clamp(torch.lerp(x, start, column(middle.to(x.dtype), x)))
        broken = goal.reached(problem.access.labels(points))
        nearest.put(rows[broken], points[broken])
        right, wrong = torch.where(broken, right, middle), torch.where(broken, middle, wrong)


def _try_noise(problem: Problem[Labels], nearest: Nearest, tries: int) -> None:
    if problem.ball.box.width is None:
        return
    for attempt in range(tries):
        rows = (~nearest.found).nonzero()[:, 0]
        if len(rows) == 0:
            return
        # Drawn for all examples, so that it does not matter which of them are left.
        generator = stream(problem.seed, "start", attempt, device=problem.x.device)
        noise = problem.ball.box.sample(problem.x.shape, generator, problem.x.dtype)[rows]
        broken = problem.goal.rows(rows).reached(problem.access.labels(noise))
        nearest.put(rows[broken], noise[broken])


def _try_pool(problem: Problem[Labels], nearest: Nearest, pool: Tensor, labels: Tensor) -> None:
    """The closest member of the pool on the wanted side; its label is known, so this asks nothing."""
    rows = (~nearest.found).nonzero()[:, 0]
    if len(rows) == 0:
        return
    goal = problem.goal.rows(rows)
    wanted = (labels[None, :] == goal.classes[:, None]) == goal.targeted
    apart = torch.cdist(problem.x[rows].flatten(1), pool.flatten(1)).masked_fill(~wanted, torch.inf)
    distance, member = apart.min(1)
    some = distance.isfinite()
    nearest.put(rows[some], pool[member[some]])
