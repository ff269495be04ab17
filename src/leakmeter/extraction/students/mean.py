"""Several networks as one: the mean of their probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn


class Mean(nn.Module):
    """Members of the same inputs and outputs; their mean is steadier than any of them."""

    def __init__(self, members: Sequence[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of the members' mean probabilities, so that none is heard for being loud; of one score, their mean."""
        outputs = torch.stack([member(x) for member in self.members])
        if outputs.shape[2] == 1:
            return outputs.mean(0)
        return outputs.log_softmax(2).logsumexp(0) - math.log(len(self.members))
