"""Label-only: the API names the top class and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from leakmeter.defenses.base import Defense, labels_of
from leakmeter.victims.spec import Outputs
from leakmeter.victims.victim import Question, Responder


@dataclass(frozen=True)
class Labels(Defense):
    """Hides every number. Keeps the label; views that show more than labels cannot be given."""

    name: ClassVar[str] = "labels"
    keeps_label: ClassVar[bool] = True
    outputs: ClassVar[Outputs] = "labels"
    undoable: ClassVar[bool] = False

    def check(self, victim: Responder) -> None:
        """Stands before any victim."""

    def respond(self, victim: Responder, x: Tensor, question: Question) -> Tensor:
        """The label of each row."""
        return labels_of(victim, x, question)
