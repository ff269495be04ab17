"""SEAT-like: pairs of queries too alike for honest use (Zhang, Chen and Wagner 2021, without a trained encoder).

Attacks that walk along boundaries or jitter seeds ask for inputs that lie closer together than natural ones ever do.
Exactly the same input again is no pair: honest users repeat themselves.
"""

from __future__ import annotations

import torch
from torch import Tensor

from leakmeter.detectors import LIMIT, flat
from leakmeter.errors import UsageError

_CHUNK = 256
_CLOSER = 0.5  # of the least distance that honest queries keep
_SAME = 1e-9


class Seat:
    """Fires at the `pairs`-th query that lies closer to an earlier one than honest queries lie to each other."""

    def __init__(self, pairs: int = 20) -> None:
        if pairs < 1:
            raise UsageError(f"expected at least 1 of SEAT's pairs, got {pairs}")
        self.pairs = pairs
        self.queries = 0
        self.fired_at: int | None = None
        self._radius = 0.0
        self._found = 0
        self._seen: Tensor | None = None

    def learn(self, x: Tensor, labels: Tensor) -> None:  # noqa: ARG002
        """The radius: half of the least distance of two different honest queries."""
        rows = flat(x)[:LIMIT]
        if len(rows) > 1:
            apart = _distances(rows, rows).fill_diagonal_(torch.inf)
            self._radius = _CLOSER * float(apart[apart > _SAME].min())

    def observe(self, x: Tensor, labels: Tensor) -> None:  # noqa: ARG002
        """Sees some queries and the labels they were answered with."""
        for rows in torch.split(flat(x), _CHUNK):
            room = LIMIT - self.queries
            if self.fired_at is None and room > 0:
                self._watch(rows[:room])
            self.queries += len(rows)

    def _watch(self, rows: Tensor) -> None:
        start = 0 if self._seen is None else len(self._seen)
        seen = rows if self._seen is None else torch.cat([self._seen, rows])
        apart = _distances(rows, seen)
        later = torch.arange(len(seen))[None] >= start + torch.arange(len(rows))[:, None]
        near = ((apart < self._radius) & (apart > _SAME) & ~later).any(1)
        hits = near.nonzero()[:, 0]
        if self._found + len(hits) >= self.pairs:
            self.fired_at = self.queries + int(hits[self.pairs - self._found - 1]) + 1
        self._found += len(hits)
        self._seen = seen


def _distances(x: Tensor, y: Tensor) -> Tensor:
    """Without the shortcut that loses small ones."""
    return torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")
