"""Which copy to hand over when none is whole: whichever names most classes right at points none learned from."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from leakmeter.extraction.exact.completed import completed
from leakmeter.extraction.exact.copy import Copy, linear
from leakmeter.extraction.exact.fresh import ROUNDS, Answers, joined
from leakmeter.extraction.exact.output import Known
from leakmeter.extraction.exact.student import taught
from leakmeter.extraction.findings import Trial
from leakmeter.oracle.answer import to_labels

More = Callable[[nn.Module], Answers | None]
"""Answers at more points, given a copy; none where no more can be asked."""
LAYERS, ONE_LAYER = "the layers found", "one layer"
FEWEST = 40
"""Points from which anything is learned or judged."""


def best_copy(
    found: dict[str, nn.Module],
    known: Known | None,
    fresh: Answers,
    contrasts: Tensor,
    seed: int,
    more: More = lambda _: None,
    shown: Answers | None = None,
) -> tuple[nn.Module, tuple[Trial, ...]]:
    """The copy to hand over, of those `found` by algebra (the one preferred so far first) and those learned.

    The layers found are completed from what lines have `shown` as well.
    Students learn in rounds: `more` asks where one is undecided. All are judged by a part
    of the `fresh` answers alone, which are of no special points.
    """
    if len(fresh) < FEWEST:
        return next(iter(found.values())), ()
    first = known.stack.layers[0] if known is not None and known.stack.layers else None
    told, held = fresh.parted()
    student, tried = taught(told, first, seed), dict(found)
    for _ in range(ROUNDS - 1):
        others = more(student)
        if others is None or not len(others):
            break
        told = joined([told, others])
        student = taught(told, first, seed)
    if known is not None and first is not None:
        tried["the layers found, completed by learning"] = completed(
            known, told if shown is None else joined([told, shown]), contrasts, seed
        )
    tried["a dense student" if first is None else "a dense student above the first layer"] = student
    tried["a constant"] = constant(told)
    misses = {name: _misses(copy, held) for name, copy in tried.items()}
    chosen = min(tried, key=lambda name: misses[name])
    trials = [Trial(name=name, held_out=1 - misses[name][0], chosen=name == chosen) for name in tried]
    return tried[chosen], tuple(trials)


def constant(told: Answers) -> Copy:
    """The scores of the commonest class, everywhere."""
    labels = told.labels()
    row = told.scores[labels == labels.mode().values].mean(0)
    return Copy(None, linear(row.new_zeros(len(row), told.x.shape[1]), row), None)


@torch.no_grad()
def _misses(copy: nn.Module, held: Answers) -> tuple[float, float]:
    """How often a copy names another class, and how far off its differences of scores are, at most by their size."""
    shown = torch.nan_to_num(copy(held.x))
    other = float((to_labels(shown) != held.labels()).double().mean())
    one, two = (s if s.shape[1] == 1 else s - s.mean(1, keepdim=True) for s in (shown, held.scores))
    size = two.norm(dim=1).clamp(min=1e-300)
    return other, float(((one - two).norm(dim=1) / size).clamp(max=1.0).mean())
