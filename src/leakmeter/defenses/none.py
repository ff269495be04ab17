"""No defense: the arm every other is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from leakmeter.defenses.base import Defense
from leakmeter.victims.victim import Responder


@dataclass(frozen=True)
class Nothing(Defense):
    """Leaves the victim as it is."""

    name: ClassVar[str] = "none"
    keeps_label: ClassVar[bool] = True
    undoable: ClassVar[bool] = False

    def around(self, victim: Responder) -> Responder:
        """The victim itself."""
        return victim
