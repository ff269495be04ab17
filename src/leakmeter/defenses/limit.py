"""A limit on queries: one client gets so many answers, and no more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from leakmeter.defenses.none import Nothing
from leakmeter.errors import UsageError


@dataclass(frozen=True)
class Limit(Nothing):
    """Leaves answers as they are; an attack's budget ends at `queries`. An attacker with many accounts has many."""

    name: ClassVar[str] = "limit"
    queries: int

    def __post_init__(self) -> None:
        if self.queries < 1:
            raise UsageError(f"expected QUERIES of limit:QUERIES to be at least 1, got {self.queries}")

    @property
    def most_queries(self) -> int:
        """The limit."""
        return self.queries
