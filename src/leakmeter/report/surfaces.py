"""What the API shows, and how the attacks fared against it: facts that several sections are about."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from statistics import fmean

from leakmeter.evaluation.intervals import CONFIDENCE, Interval, exact
from leakmeter.report.words import surface_words
from leakmeter.results import Arm, AuditResult, CopyCost
from leakmeter.verdict.closure import within_reach


@dataclass(frozen=True)
class Surface:
    """A view behind a defense, with every arm that was tried against it."""

    view: str
    defense: str
    arms: list[Arm]
    untrained: float | None
    """Mean fidelity of substitutes that learned nothing."""
    weaker: list[Arm] = field(default_factory=list)
    """Attackers who were shown less, knew less or had what the defense spoils: whoever sees this can do as they did."""

    @property
    def name(self) -> str:
        """As a reader is told it."""
        return surface_words(self.view, self.defense)

    @property
    def attackers(self) -> list[Arm]:
        """The arms of the threat model: seeing more never reads as leaking less."""
        return [arm for arm in self.arms if not arm.control] + self.weaker

    def named(self, arm: Arm) -> str:
        """An attacker's name, and what it throws away."""
        if arm.view != self.view:
            return f"{arm.label}, using only {arm.view}"
        return f"{arm.label}, reading answers as they are" if arm.defense != self.defense else arm.label

    @property
    def best(self) -> Arm | None:
        """The attacker who made the copy that agrees most."""
        return max(self.attackers, key=best_copy, default=None)

    @property
    def reach(self) -> Interval | None:
        """Where the best copy made lies on all inputs, all copies looked at; None: there is none."""
        best = self.best
        if best is None or not best.copies:
            return None if best is None else best.fidelity_interval
        looks = sum(arm.seeds for arm in self.attackers)
        return exact(best_copy(best) * best.inputs, best.inputs, 1 - (1 - CONFIDENCE) / looks)

    def cheapest(self, fidelity: float) -> tuple[CopyCost, Arm] | None:
        """What a copy that agrees that often cost the cheapest attacker; None: nobody made one."""
        found = [
            (cost, arm)
            for arm in self.attackers
            for cost in arm.costs
            if cost.fidelity == fidelity and cost.cheapest is not None
        ]
        return min(found, key=lambda each: each[0].cheapest or 0, default=None)


def best_copy(arm: Arm) -> float:
    """The best of the final copies; results of before they were kept have only the mean."""
    return max(arm.copies[-1]) if arm.copies else arm.fidelity


def surely_below(one: Surface, other: Surface) -> bool:
    """Whether the best copy made against one agrees less than that against the other, on all inputs."""
    return one.reach is not None and other.reach is not None and one.reach.high < other.reach.low


def surfaces(result: AuditResult) -> list[Surface]:
    """Views with no defense first, then each defense, in the order of the audit."""
    groups: dict[tuple[str, str], list[Arm]] = defaultdict(list)
    for arm in result.verdict.arms:
        groups[arm.view, arm.defense].append(arm)
    ordered = sorted(groups.items(), key=lambda group: group[0][1] != "none")
    return [
        Surface(view, defense, arms, _untrained(result, view, defense), _weaker(result.verdict.arms, view, defense))
        for (view, defense), arms in ordered
    ]


def mean(values: list[float | None]) -> float | None:
    """Over what was measured; None where nothing was."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _weaker(arms: list[Arm], view: str, defense: str) -> list[Arm]:
    own = [arm for arm in arms if (arm.view, arm.defense) == (view, defense)]
    return [arm for arm in within_reach(arms, view, defense) if arm not in own]


def _untrained(result: AuditResult, view: str, defense: str) -> float | None:
    scores = [cell.untrained for cell in result.cells if (cell.view, cell.defense) == (view, defense)]
    return mean([None if score is None else score.fidelity for score in scores])
