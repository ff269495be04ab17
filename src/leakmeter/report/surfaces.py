"""What the API shows, and how the attacks fared against it: facts that several sections are about."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean

from leakmeter.report.words import surface_words
from leakmeter.results import Arm, AuditResult


@dataclass(frozen=True)
class Surface:
    """A view behind a defense, with every arm that was tried against it."""

    view: str
    defense: str
    arms: list[Arm]
    untrained: float | None
    """Mean fidelity of substitutes that learned nothing."""

    @property
    def name(self) -> str:
        """As a reader is told it."""
        return surface_words(self.view, self.defense)

    @property
    def attackers(self) -> list[Arm]:
        """The arms of the threat model."""
        return [arm for arm in self.arms if not arm.control]

    @property
    def best(self) -> Arm | None:
        """The attacker whose final copy agrees most."""
        return max(self.attackers, key=lambda arm: arm.fidelity, default=None)

    def cheapest(self, fidelity: float) -> tuple[int, Arm] | None:
        """The fewest queries after which an attacker's copy agreed that often; None: nobody got there."""
        found = [
            (cost.queries, arm)
            for arm in self.attackers
            for cost in arm.costs
            if cost.fidelity == fidelity and cost.queries is not None
        ]
        return min(found, key=lambda each: each[0], default=None)


def surfaces(result: AuditResult) -> list[Surface]:
    """Views with no defense first, then each defense, in the order of the audit."""
    groups: dict[tuple[str, str], list[Arm]] = defaultdict(list)
    for arm in result.verdict.arms:
        groups[arm.view, arm.defense].append(arm)
    ordered = sorted(groups.items(), key=lambda group: group[0][1] != "none")
    return [Surface(view, defense, arms, _untrained(result, view, defense)) for (view, defense), arms in ordered]


def mean(values: list[float | None]) -> float | None:
    """Over what was measured; None where nothing was."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _untrained(result: AuditResult, view: str, defense: str) -> float | None:
    scores = [cell.untrained for cell in result.cells if (cell.view, cell.defense) == (view, defense)]
    return mean([None if score is None else score.fidelity for score in scores])
