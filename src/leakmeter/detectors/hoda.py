"""HODA-like: how hard a client's queries are, as a histogram (Sadeghzadeh et al. 2021).

A query is as hard as the moment is late from which a network in training names its answer and goes on naming it. The
paper takes the victim's own checkpoints; here a small network learns honest queries instead, which an owner always
has. A window whose histogram lies farther from the honest one than honest windows ever do raises the alarm.
"""

from __future__ import annotations

import math
from copy import deepcopy

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from leakmeter.detectors import LIMIT, flat
from leakmeter.errors import UsageError
from leakmeter.seeds import private_randomness, stream

_STEPS = (1, 2, 4, 8, 16, 32, 64, 128, 256)  # of training, after which the network is asked
_HIDDEN, _RATE = 32, 0.01
_WINDOWS = 1000  # honest windows drawn to find the threshold


class Hoda:
    """Fires when the queries of a window of `window` are harder or easier than in any of 1,000 honest windows."""

    def __init__(self, window: int = 100) -> None:
        if window < 10:
            raise UsageError(f"expected HODA's window of at least 10 queries, got {window}")
        self.window = window
        self.queries = 0
        self.fired_at: int | None = None
        self._networks: list[nn.Module] = []
        self._middle, self._reach = torch.zeros(1), torch.ones(1)
        self._honest = torch.zeros(len(_STEPS) + 1)
        self._threshold = math.inf
        self._hardness: list[int] = []

    def learn(self, x: Tensor, labels: Tensor) -> None:
        """Trains on half of the honest queries; the others say what is usual."""
        rows, half = flat(x).float(), len(x) // 2
        self._reach, self._middle = torch.std_mean(rows, dim=0)
        self._reach = self._reach.clamp_min(1e-6)
        self._networks = _snapshots(self._scaled(rows[:half]), labels[:half], int(labels.max()) + 1)
        usual = self._hard(rows[half:], labels[half:])
        self._honest = _histogram(usual)
        draws = stream(0, "hoda")
        drawn = [usual[torch.randint(len(usual), (self.window,), generator=draws)] for _ in range(_WINDOWS)]
        self._threshold = max(_apart(_histogram(each), self._honest) for each in drawn)

    def observe(self, x: Tensor, labels: Tensor) -> None:
        """Sees some queries and the labels they were answered with."""
        if self._networks:
            self._hardness += self._hard(flat(x).float(), labels).tolist()
        start, self.queries = self.queries, self.queries + len(x)
        for end in range(start + 1, min(self.queries, LIMIT) + 1):
            if self.fired_at is None and self._networks and end % self.window == 0:
                seen = _histogram(torch.tensor(self._hardness[end - self.window : end]))
                if _apart(seen, self._honest) > self._threshold:
                    self.fired_at = end

    def _scaled(self, rows: Tensor) -> Tensor:
        return (rows - self._middle) / self._reach

    def _hard(self, rows: Tensor, labels: Tensor) -> Tensor:
        """Of each query, after how many snapshots its answer stays named; as many as there are if never."""
        with torch.inference_mode():
            right = torch.stack([network(self._scaled(rows)).argmax(1) == labels for network in self._networks])
        return len(self._networks) - right.flip(0).long().cumprod(0).sum(0)


def _snapshots(x: Tensor, labels: Tensor, classes: int) -> list[nn.Module]:
    """The same small network after more and more steps."""
    kept: list[nn.Module] = []
    with private_randomness(0):
        network = nn.Sequential(nn.Linear(x.shape[1], _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, classes))
    optimizer = torch.optim.Adam(network.parameters(), lr=_RATE)
    for step in range(1, _STEPS[-1] + 1):
        optimizer.zero_grad()
        F.cross_entropy(network(x), labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if step in _STEPS:
            kept.append(deepcopy(network).eval())
    return kept


def _histogram(hardness: Tensor) -> Tensor:
    return hardness.bincount(minlength=len(_STEPS) + 1).double() / len(hardness)


def _apart(one: Tensor, other: Tensor) -> float:
    """Pearson's distance: 1 less the correlation."""
    return 1 - float(torch.corrcoef(torch.stack([one, other]))[0, 1])
