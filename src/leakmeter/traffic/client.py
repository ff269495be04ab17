"""One client's part of the traffic, and how a client turns into several."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leakmeter.oracle.answer import Answer

DAY = 86_400.0
START = 1_700_000_000.0
"""When made-up traffic begins, in seconds since 1970."""


@dataclass(frozen=True, eq=False)
class Client:
    """What one client asked, in the order of time, and the truth about it."""

    name: str
    x: Tensor
    answer: Answer
    times: NDArray[np.float64]
    attack: str | None = None
    """None: honest."""
    fidelity: float | None = None
    """What the real attack got from all its answers; None: not measured, or honest."""
    curve: tuple[tuple[int, float], ...] = ()
    """Of a thief: what the real attack had after so many answers."""
    owner: str | None = None
    """Whose account it is, where several belong to one thief."""

    def __len__(self) -> int:
        return len(self.x)

    def rows(self, index: Tensor) -> Client:
        """Some of its queries."""
        columns = {name: column[index] for name, column in self.answer.columns.items()}
        return replace(
            self, x=self.x[index], answer=replace(self.answer, columns=columns), times=self.times[index.numpy()]
        )

    def had(self, queries: int) -> float:
        """What the real attack had after so many answers, on the line between those measured."""
        points = ((0, 0.0), *self.curve)
        return float(np.interp(queries, [n for n, _ in points], [rate for _, rate in points]))

    def until(self, time: float) -> Client:
        """What it had asked by then."""
        return self.rows(torch.from_numpy(np.flatnonzero(self.times <= time)))


def split(client: Client, accounts: int) -> list[Client]:
    """The same thief with several accounts, asking in turn: Sybils."""
    places = torch.arange(len(client))
    return [
        replace(client.rows(places[k::accounts]), name=f"{client.name}-{k}", owner=client.name, fidelity=None, curve=())
        for k in range(accounts)
    ]


def spread(n: int, days: float, draws: torch.Generator, start: float = START) -> NDArray[np.float64]:
    """Times of `n` queries at random moments of so many days, rising, no two alike."""
    moments = torch.rand(n, generator=draws, dtype=torch.float64).sort().values.numpy()
    times: NDArray[np.float64] = start + moments * days * DAY + np.arange(n) * 1e-3
    return np.round(times, 3)
