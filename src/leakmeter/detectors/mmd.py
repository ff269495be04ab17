"""MMD: a two-sample test of a client's queries against honest ones (Gretton et al. 2012), class by class.

Honest users have habits: one asks of cats, another of dogs. So a client is compared with honest queries in the classes
it was answered, in its own proportions, and an input asked again counts once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from leakmeter.detectors import LIMIT
from leakmeter.detectors.likeness import Cloud, Usual, Waves, chance
from leakmeter.errors import UsageError

_FIRST = 50  # different queries at which it looks first; then whenever they have doubled


class Mmd:
    """Fires when queries like these would come from an honest client with a chance below `alpha`."""

    def __init__(self, alpha: float = 1e-4) -> None:
        if not 0 < alpha < 1:
            raise UsageError(f"expected MMD's alpha between 0 and 1, got {alpha:g}")
        self.alpha = alpha
        self.queries = 0
        self.fired_at: int | None = None
        self._waves: Waves | None = None
        self._honest: dict[int, Cloud] = {}
        self._known: set[bytes] = set()
        self._asked: list[Tensor] = []
        self._labels: list[int] = []
        self._next = _FIRST

    def learn(self, x: Tensor, labels: Tensor) -> None:
        """The honest queries of each class."""
        self._waves = Waves.fitted(x)
        self._honest = Usual.of(self._waves(x), labels).classes

    def observe(self, x: Tensor, labels: Tensor) -> None:
        """Sees some queries and the labels they were answered with."""
        if self._waves is None:
            self.queries += len(x)
            return
        for waves, row, label in zip(self._waves(x), x, labels.tolist(), strict=True):
            self.queries += 1
            key = row.numpy().tobytes()
            if self.fired_at is None and self.queries <= LIMIT and label in self._honest and key not in self._known:
                self._known.add(key)
                self._asked.append(waves)
                self._labels.append(label)
                self._look()

    def _look(self) -> None:
        n = len(self._asked)
        if n < self._next:
            return
        self._next = 2 * n
        labels = torch.tensor(self._labels)
        mean, spread = torch.zeros_like(self._asked[0]), torch.zeros(len(self._asked[0]), len(self._asked[0])).double()
        for label, honest in self._honest.items():
            share = float((labels == label).double().mean())
            mean += share * honest.mean
            spread += (share / n + share**2 / honest.n) * honest.covariance
        if chance(float((torch.stack(self._asked).mean(0) - mean).square().sum()), spread) < self.alpha:
            self.fired_at = self.queries
