"""Which of the victim's units a copy has: for the owner, who knows them."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def aligned(found: nn.Linear, truth: nn.Linear, *, tolerance: float) -> Tensor:
    """For each of the victim's units the copy's unit on the same hyperplane, or -1: permutation and scale drop out.

    White-box: for the owner. Rows (weight, bias) are compared up to scale and sign.
    """
    rows = [torch.cat([layer.weight, layer.bias[:, None]], dim=1).detach().double() for layer in (found, truth)]
    ours, theirs = (row / row.norm(dim=1, keepdim=True) for row in rows)
    cosine, match = (theirs @ ours.T).abs().max(1)
    return torch.where(1 - cosine <= tolerance, match, -1)
