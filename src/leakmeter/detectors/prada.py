"""PRADA: queries whose distances to each other are not those of natural data (Juuti et al. 2019, Algorithm 3)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
import torch
from torch import Tensor

from leakmeter.detectors import LIMIT, flat
from leakmeter.errors import UsageError

_CHUNK = 256  # queries whose distances are computed at once
_LEAST = 100  # distances before the first test


class Prada:
    """Fires when the distances of queries to the nearest earlier one of their class stop looking normal.

    The test is Shapiro and Wilk's W below `delta`, after every query. The paper picks delta for each data set such that
    honest streams stay above it; the closer to 1, the sooner it fires, on honest clients too. It looks at the first
    5,000 queries: so far reaches the approximation behind W.
    """

    def __init__(self, delta: float = 0.9) -> None:
        if not 0 < delta < 1:
            raise UsageError(f"expected PRADA's delta between 0 and 1, got {delta:g}")
        self.delta = delta
        self.queries = 0
        self.fired_at: int | None = None
        self._sets: dict[int, _GrowingSet] = {}
        self._rows: dict[int, Tensor] = {}
        self._distances = np.empty(LIMIT)
        self._count = 0

    def observe(self, x: Tensor, labels: Tensor) -> None:
        """Sees some queries and the labels they were answered with."""
        for rows, names in zip(torch.split(flat(x), _CHUNK), torch.split(labels, _CHUNK), strict=True):
            room = LIMIT - self.queries
            if self.fired_at is None and room > 0:
                self._watch(rows[:room], names[:room].tolist())
            self.queries += len(rows)

    def _watch(self, x: Tensor, labels: list[int]) -> None:
        """One chunk: distances all at once, decisions one after the other, since each changes the sets for the next."""
        earlier, among = self._nearest(x, labels), _distances(x, x).tolist()
        joined: dict[int, list[int]] = defaultdict(list)
        for i, label in enumerate(labels):
            distance = min([earlier[i], *(among[i][j] for j in joined[label])])
            if self._takes(label, distance):
                joined[label].append(i)
            if self._count > _LEAST and normality(self._distances[: self._count]) < self.delta:
                self.fired_at = self.queries + i + 1
                return
        for label, rows in joined.items():
            self._rows[label] = torch.cat([self._rows.get(label, x[:0]), x[rows]])

    def _nearest(self, x: Tensor, labels: list[int]) -> list[float]:
        """The distance of each query to the growing set of its class as it was before this chunk."""
        nearest = torch.full((len(x),), inf)
        for label in self._rows.keys() & set(labels):
            rows = [i for i, each in enumerate(labels) if each == label]
            nearest[rows] = _distances(x[rows], self._rows[label]).amin(1).float()
        return nearest.tolist()

    def _takes(self, label: int, distance: float) -> bool:
        """Whether the query joins the growing set of its class; the first of a class does, at distance 0."""
        known = label in self._sets
        grown = self._sets.setdefault(label, _GrowingSet())
        if known:
            self._distances[self._count] = distance
            self._count += 1
        joins = not known or distance > grown.threshold
        if joins:
            grown.add(distance if known else 0.0)
        return joins


@dataclass
class _GrowingSet:
    """How far apart from each other the queries of one class lay that joined, and how far a new one must lie."""

    threshold: float = 0.0
    size: int = 0
    total: float = 0.0
    squares: float = 0.0

    def add(self, distance: float) -> None:
        """Counts one more; the threshold is the mean minus the deviation of the distances so far, and never falls."""
        self.size, self.total, self.squares = self.size + 1, self.total + distance, self.squares + distance**2
        mean = self.total / self.size
        self.threshold = max(self.threshold, mean - sqrt(max(0.0, self.squares / self.size - mean**2)))


def normality(distances: np.ndarray) -> float:
    """Shapiro and Wilk's W of the distances within three deviations of their mean; 0 where all are the same."""
    from scipy.stats import shapiro

    kept = distances[np.abs(distances - distances.mean()) <= 3 * distances.std()]
    return float(shapiro(kept).statistic) if np.ptp(kept) > 0 else 0.0


def _distances(x: Tensor, y: Tensor) -> Tensor:
    """Euclidean distances without the shortcut that loses small ones."""
    return torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")
