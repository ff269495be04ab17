"""From cells to an answer: what a copy costs, whether the policy holds, and whether the audit can be believed."""

from __future__ import annotations

from collections import defaultdict
from math import exp, log
from statistics import fmean

from leakmeter.evaluation.intervals import Interval, mean_interval
from leakmeter.plan import Plan, Policy
from leakmeter.results import Arm, CellResult, Check, CopyCost, Ruling, Verdict

FIDELITIES = (0.8, 0.9, 0.95)
_FEW_POINTS = 100


def judge(plan: Plan, cells: list[CellResult]) -> Verdict:
    """The verdict over all cells."""
    arms = make_arms(cells)
    checks = soundness(cells)
    rulings = rule(plan.policy, arms)
    outcome = _outcome(rulings, checks)
    return Verdict(
        outcome=outcome,
        headline=_headline(arms),
        sentences=[*_cost_sentences(arms), *_rate_sentences(arms, plan.queries_per_day)],
        arms=arms,
        rulings=rulings,
        checks=checks,
    )


def make_arms(cells: list[CellResult]) -> list[Arm]:
    """Cells that differ only in their seed, put together."""
    groups: dict[tuple[str, str, str], list[CellResult]] = defaultdict(list)
    for cell in cells:
        if cell.status == "done" and cell.final is not None and cell.final.score is not None:
            groups[arm_label(cell), cell.view, cell.defense].append(cell)
    return [_arm(label, group) for (label, _, _), group in groups.items()]


def arm_label(cell: CellResult) -> str:
    """What a cell's arm is called in every report."""
    pool = cell.options.get("pool")
    return f"{cell.attack} ({pool})" if isinstance(pool, str) else cell.attack


def _arm(label: str, cells: list[CellResult]) -> Arm:
    first, finals = cells[0], [cell.final for cell in cells]
    curve = [(queries, *_at(cells, queries)) for queries in _stops(cells)]
    scores = [final.score for final in finals if final is not None and final.score is not None]
    accuracies = [score.accuracy for score in scores if score.accuracy is not None]
    return Arm(
        attack=first.attack,
        label=label,
        view=first.view,
        defense=first.defense,
        control=first.control,
        seeds=len(cells),
        queries=max(final.queries for final in finals if final is not None),
        fidelity=fmean(score.fidelity for score in scores),
        fidelity_interval=_interval(cells, curve[-1][0]),
        accuracy=fmean(accuracies) if accuracies else None,
        curve=curve,
        costs=[_cost(curve, fidelity) for fidelity in FIDELITIES],
    )


def _stops(cells: list[CellResult]) -> list[int]:
    """Query counts every seed has a point at."""
    common = set.intersection(*({point.queries for point in cell.curve} for cell in cells))
    return sorted(common) or sorted({cells[0].curve[-1].queries})


def _interval(cells: list[CellResult], queries: int) -> Interval:
    """Over seeds where there are several, else over the test inputs of the one."""
    scores = [point.score for cell in cells for point in cell.curve if point.queries == queries and point.score]
    if len(scores) == 1:
        return scores[0].fidelity_interval
    over = mean_interval([score.fidelity for score in scores])
    return over.model_copy(update={"low": max(0.0, over.low), "high": min(1.0, over.high)})


def _at(cells: list[CellResult], queries: int) -> tuple[float, float, float]:
    values = [p.score.fidelity for cell in cells for p in cell.curve if p.queries == queries and p.score]
    interval = _interval(cells, queries)
    return fmean(values), interval.low, interval.high


def _cost(curve: list[tuple[int, float, float, float]], fidelity: float) -> CopyCost:
    means, lows, highs = ([(point[0], point[k]) for point in curve] for k in (1, 2, 3))
    return CopyCost(
        fidelity=fidelity,
        queries=crossing(means, fidelity),
        low=crossing(highs, fidelity),
        high=crossing(lows, fidelity),
    )


def crossing(curve: list[tuple[int, float]], level: float) -> int | None:
    """The queries at which a curve first reaches `level`, straight between points on a log axis; None: never."""
    before: tuple[int, float] | None = None
    for queries, value in curve:
        if value >= level:
            if before is None or before[1] >= level:
                return queries
            share = (level - before[1]) / (value - before[1])
            return round(exp(log(before[0]) + share * (log(queries) - log(before[0]))))
        before = (queries, value)
    return None


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


def soundness(cells: list[CellResult]) -> list[Check]:
    """Whether the audit itself can be believed."""
    failed = [cell for cell in cells if cell.status == "failed"]
    checks = [
        Check(
            name="all cells finished",
            ok=not failed,
            message=f"{failed[0].id} failed: {failed[0].error}" if failed else f"{len(cells)} of {len(cells)}",
            raised_if="a cell of the plan ended with an error",
            means="The strongest attack may be among the missing ones, so the copy may be cheaper than reported.",
        )
    ]
    scored = [cell for cell in cells if cell.final is not None and cell.final.score is not None]
    if scored:
        n = min(cell.final.score.n for cell in scored if cell.final and cell.final.score)
        checks.append(
            Check(
                name="enough test points",
                ok=n >= _FEW_POINTS,
                message=f"{n:,} test inputs",
                raised_if=f"a copy was scored on fewer than {_FEW_POINTS} test inputs",
                means="The intervals are too wide to tell a good copy from a poor one.",
            )
        )
    unspent = [cell for cell in cells if cell.spending and not cell.control and cell.spending.queries < cell.budget]
    checks.append(
        Check(
            name="budget spent",
            ok=not unspent,
            message="every attack used its budget" if not unspent else f"{unspent[0].id} left some of it",
            raised_if="an attack stopped before its budget was spent",
            means="The result speaks for the queries really asked; a determined attacker would have gone on.",
        )
    )
    return checks


def _outcome(rulings: list[Ruling], checks: list[Check]) -> str:
    outcomes = {ruling.outcome for ruling in rulings}
    if "exceeded" in outcomes:
        return "exceeded"
    return "undecided" if "undecided" in outcomes or not all(check.ok for check in checks) else "pass"


def _headline(arms: list[Arm]) -> str:
    attackers = [arm for arm in arms if not arm.control]
    if not attackers:
        return "No attack was measured."
    best = max(attackers, key=lambda arm: arm.fidelity)
    return (
        f"An outsider with {best.queries:,} queries gets a copy that agrees with the model on "
        f"{best.fidelity:.1%} of inputs ({best.label}, seeing {best.view})."
    )


def _cost_sentences(arms: list[Arm]) -> list[str]:
    sentences = []
    for view in dict.fromkeys(arm.view for arm in arms):
        costs = [
            (cost.queries, arm.label)
            for arm in arms
            if arm.view == view and not arm.control
            for cost in arm.costs
            if cost.fidelity == 0.9 and cost.queries is not None
        ]
        if costs:
            queries, label = min(costs)
            sentences.append(f"Showing {view}, a 90 % copy costs about {queries:,} queries ({label}).")
        else:
            most = max((arm.queries for arm in arms if arm.view == view), default=0)
            sentences.append(f"Showing {view}, no attack made a 90 % copy within {most:,} queries.")
    return sentences


def _rate_sentences(arms: list[Arm], per_day: int | None) -> list[str]:
    costs = [c.queries for arm in arms if not arm.control for c in arm.costs if c.fidelity == 0.9 and c.queries]
    if not costs:
        return []
    cheapest = min(costs)
    rate = per_day or 1000
    days = max(1, round(cheapest / rate))
    return [
        f"At {rate:,} queries a day a 90 % copy takes about {days} day{'s' if days > 1 else ''}; to make it cost a "
        f"month, allow at most {max(1, cheapest // 30):,} queries a day to one client."
    ]
