"""A copy from answers that somebody else bought: what an access log shows that a client holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from leakmeter.extraction.auto import Auto
from leakmeter.extraction.base import AttackJob
from leakmeter.extraction.chooser import Chooser
from leakmeter.extraction.students.mean import Mean
from leakmeter.oracle.answer import Answer
from leakmeter.seeds import derive
from leakmeter.victims.spec import VictimSpec


@dataclass(frozen=True, eq=False)
class Given:
    """Queries and their answers, in the order they were asked."""

    x: Tensor
    answer: Answer

    def plausible(self) -> Tensor:
        """All rows: nobody says where they come from."""
        return torch.arange(len(self.x))


def copy_from(given: Given, spec: VictimSpec, seed: int, copies: int = 1, **options: Any) -> nn.Module:
    """The copy that the choosing attacker (`auto`) makes of these answers, and of nothing else.

    Args:
        given: at least one query with its answer.
        spec: of the victim that answered.
        seed: the same answers and seed give the same copy.
        copies: how many are made with different seeds; the copy is their mean, which is better and steadier than one.
        **options: of the attack `auto`, such as effort and students.
    """
    attack, made = Auto(**options), []
    for number in range(copies):
        job = AttackJob(derive(seed, "copy", number), torch.device("cpu"))
        made.append(Chooser(attack, spec, job, given).copied(f"{len(given.x)}"))
    return (made[0] if copies == 1 else Mean(made)).eval()
