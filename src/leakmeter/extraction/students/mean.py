"""Several networks as one: the mean of their outputs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class Mean(nn.Module):
    """Members of the same inputs and outputs; their mean is steadier than any of them."""

    def __init__(self, members: Sequence[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, x: Tensor) -> Tensor:
        """The mean of the members' outputs."""
        return torch.stack([member(x) for member in self.members]).mean(0)
