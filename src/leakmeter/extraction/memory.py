"""Answers already paid for, kept to learn from again: the last rows asked, as many as fit."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class Memory:
    """A ring of queries and their targets, bounded so that a long attack stays within memory."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.added = 0
        self.x, self.target = torch.empty(0), torch.empty(0)

    def __len__(self) -> int:
        return min(self.added, self.rows)

    def add(self, x: Tensor, target: Tensor) -> None:
        """Keeps the rows, over the oldest where it is full."""
        if self.added == 0:
            self.x, self.target = (column.new_empty(self.rows, *column.shape[1:]) for column in (x, target))
        x, target = x[-self.rows :], target[-self.rows :]
        places = (self.added + torch.arange(len(x), device=x.device)) % self.rows
        self.x[places], self.target[places] = x, target
        self.added += len(x)

    def sample(self, n: int, draws: torch.Generator) -> tuple[Tensor, Tensor]:
        """Rows at random, any age alike."""
        chosen = torch.randint(len(self), (n,), generator=draws, device=draws.device)
        return self.x[chosen], self.target[chosen]

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"added": self.added, "x": self.x, "target": self.target}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes a state back."""
        self.added, self.x, self.target = state["added"], state["x"], state["target"]
