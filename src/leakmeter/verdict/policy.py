"""The owner's policy, line by line: an interval across the line leaves it undecided."""

from __future__ import annotations

from leakmeter.plan import Policy
from leakmeter.results import Arm, Ruling


def rule(policy: Policy, arms: list[Arm]) -> list[Ruling]:
    """Each line of the policy against the strongest arm; an interval across the line leaves it undecided."""
    attackers = [arm for arm in arms if not arm.control]
    rulings = []
    if policy.max_fidelity is not None:
        limit = policy.max_fidelity
        rulings.append(_rule_fidelity(f"fidelity at {limit.queries:,} queries", limit.queries, limit.value, attackers))
    if policy.min_copy_cost is not None:
        floor = policy.min_copy_cost
        name = f"queries to {floor.fidelity:.0%} fidelity"
        rulings.append(_rule_fidelity(name, floor.queries, floor.fidelity, attackers))
    return rulings


def _rule_fidelity(name: str, queries: int, value: float, arms: list[Arm]) -> Ruling:
    """Whether every arm stays below `value` up to `queries` queries."""
    if not arms:
        return Ruling(rule=name, outcome="undecided", message="no attack was measured")
    reached = {_against(arm): _best_by(arm, queries) for arm in arms}
    worst, (mean, low, high) = max(reached.items(), key=lambda item: item[1][1])
    if low > value:
        message = f"{worst} reaches {mean:.1%} ({low:.1%} to {high:.1%}), above {value:.1%}"
        return Ruling(rule=name, outcome="exceeded", message=message)
    if any(bounds[2] > value for bounds in reached.values()):
        message = f"{worst} reaches {mean:.1%} ({low:.1%} to {high:.1%}): the line at {value:.1%} is inside"
        return Ruling(rule=name, outcome="undecided", message=message)
    if max(arm.queries for arm in arms) < queries:
        message = f"only {max(arm.queries for arm in arms):,} queries were spent; raise the budget to {queries:,}"
        return Ruling(rule=name, outcome="undecided", message=message)
    return Ruling(rule=name, outcome="pass", message=f"the strongest, {worst}, reaches {mean:.1%}, below {value:.1%}")


def _against(arm: Arm) -> str:
    return f"{arm.label} under {arm.view}" + ("" if arm.defense == "none" else f" behind {arm.defense}")


def _best_by(arm: Arm, queries: int) -> tuple[float, float, float]:
    points = [point for point in arm.curve if point[0] <= queries] or arm.curve[:1]
    return max((point[1], point[2], point[3]) for point in points)
