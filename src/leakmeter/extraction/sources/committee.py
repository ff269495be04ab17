"""Questions about a table that two students of different answers disagree on, near where they change their mind."""

from __future__ import annotations

import torch
from torch import Tensor

from leakmeter.evaluation.score import predict
from leakmeter.extraction.sources.tables import amounts, beside_thresholds
from leakmeter.models.trees.ensemble import TreeEnsemble
from leakmeter.victims.spec import VictimSpec

_NEAR = 0.3  # a logit below which rows count as near a boundary


def hardest(
    n: int, many: int, spec: VictimSpec, draws: torch.Generator, members: list[TreeEnsemble], own: Tensor | None
) -> Tensor:
    """The `n` rows of `many` on which the members differ most for how near a boundary they are, not without luck.

    Args:
        n: how many to choose.
        many: how many to choose from.
        spec: the table.
        draws: where the numbers come from.
        members: two students or more.
        own: rows to choose from beside those drawn here.
    """
    beside = many * 3 // 4
    rows = [beside_thresholds(beside, spec, draws, members), amounts(many - beside, spec, draws)]
    candidates = torch.cat(rows if own is None else [*rows, own])
    outputs = torch.stack([_centred(predict(member, candidates)) for member in members])
    top = outputs.mean(0).topk(2, dim=1).values
    worth = outputs.std(0).mean(1) / (top[:, 0] - top[:, 1] + _NEAR)
    luck = torch.empty(len(worth), dtype=worth.dtype).exponential_(generator=draws)
    return candidates[(worth * luck).argsort(descending=True, stable=True)[:n]]


def _centred(outputs: Tensor) -> Tensor:
    """Scores of all classes, less their mean; one score stands for two classes."""
    if outputs.shape[1] == 1:
        outputs = torch.cat([torch.zeros_like(outputs), outputs], 1)
    return outputs.clamp(-20, 20) - outputs.clamp(-20, 20).mean(1, keepdim=True)
