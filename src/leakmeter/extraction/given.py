"""A copy from answers that somebody else bought: what an access log shows that a client holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from leakmeter.extraction.auto import Auto, Chooser
from leakmeter.extraction.base import AttackJob
from leakmeter.oracle.answer import Answer
from leakmeter.victims.spec import VictimSpec


@dataclass(frozen=True, eq=False)
class Given:
    """Queries and their answers, in the order they were asked."""

    x: Tensor
    answer: Answer

    def plausible(self) -> Tensor:
        """All rows: nobody says where they come from."""
        return torch.arange(len(self.x))


def copy_from(given: Given, spec: VictimSpec, seed: int, **options: Any) -> nn.Module:
    """The copy that the choosing attacker (`auto`) makes of these answers, and of nothing else.

    Args:
        given: at least one query with its answer.
        spec: of the victim that answered.
        seed: the same answers and seed give the same copy.
        **options: of the attack `auto`, such as effort and students.
    """
    job = AttackJob(seed, torch.device("cpu"))
    return Chooser(Auto(**options), spec, job, given).copied(f"{len(given.x)}").eval()
