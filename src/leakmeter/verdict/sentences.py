"""The verdict in plain words."""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean

from leakmeter.evaluation.transfer import Transfer
from leakmeter.plan import Plan
from leakmeter.results import Arm, CellResult, CopyCost
from leakmeter.verdict.arms import arm_label
from leakmeter.verdict.closure import within_reach
from leakmeter.verdict.explanations import compared
from leakmeter.verdict.findings import GOOD, beats_untrained, whole

RATE = 1000  # queries a day, where the plan states no limit
MONTH = 30
_DRAWN = (
    "There were no test data: agreement is that on inputs drawn by chance, which are not those that users send; give "
    "some (--data, labels are not needed) before you rely on it."
)


def headline(arms: list[Arm], cells: list[CellResult], *, real: bool = True) -> str:
    """The answer in one sentence; an exact copy before all others, else the best that a thief got.

    `real`: copies were scored on test data, and not on inputs drawn by chance.
    """
    if (exact := _cheapest_exact(cells)) is not None:
        return (
            f"The model was copied exactly from {_asked(exact):,} queries "
            f"({exact.attack}, seeing {exact.view}{_behind(exact.defense)})."
        )
    attackers = [arm for arm in arms if not arm.control and arm.defense == "none"] or _attackers(arms)
    if not attackers:
        return "No attack was measured."
    best, inputs = max(attackers, key=_best_copy), "inputs" if real else "inputs drawn by chance"
    if _all_failed(cells):
        return (
            f"The attacks failed, which protects nothing: after {best.queries:,} queries the best copy ({best.label}, "
            f"seeing {best.view}) agrees on {_best_copy(best):.1%} of {inputs}, no better than a network that learned "
            "nothing. Check the range (low, high) and shape of the inputs, raise the budget, or give a pool of inputs "
            "like those the model sees."
        )
    tries = f"the best of {best.seeds} tries, {best.fidelity:.1%} on average" if best.seeds > 1 else "one try"
    trivial = "" if best.constant is None else f"; always naming one class would agree on {best.constant:.1%}"
    return (
        f"An outsider with {best.queries:,} quer{'y' if best.queries == 1 else 'ies'} gets a copy that agrees with the "
        f"model on {_best_copy(best):.1%} of {inputs} ({best.label}, seeing {best.view}{_behind(best.defense)}; "
        f"{tries}{trivial})."
    )


def sentences(plan: Plan, arms: list[Arm], cells: list[CellResult]) -> list[str]:
    """What a copy costs under each view and defense, what a rate limit does, what the copy and explanations give."""
    return [
        *_exactness(cells),
        *([_DRAWN] if plan.data is None and arms else []),
        *_costs(arms),
        *_classes(arms),
        *_rates(arms, plan.queries_per_day),
        *_transfer(cells),
        *(each.said for each in compared(cells)),
    ]


def _all_failed(cells: list[CellResult]) -> bool:
    attackers = [cell for cell in cells if cell.status == "done" and not cell.control]
    return attackers != [] and not any(beats_untrained(cell) for cell in attackers)


def _attackers(arms: list[Arm]) -> list[Arm]:
    return [arm for arm in arms if not arm.control]


def _best_copy(arm: Arm) -> float:
    """The best of the final copies; results of before they were kept have only the mean."""
    return max(arm.copies[-1]) if arm.copies else arm.fidelity


def _cheapest_exact(cells: list[CellResult]) -> CellResult | None:
    """Of the cells that ended with the model itself, an undefended one first, the one that asked least."""
    exact = [cell for cell in cells if not cell.control and whole(cell)]
    return min(exact, key=lambda cell: (cell.defense != "none", _asked(cell)), default=None)


def _asked(cell: CellResult) -> int:
    return cell.budget if cell.spending is None else cell.spending.queries


def _exactness(cells: list[CellResult]) -> list[str]:
    """How exact the exact copy is, and on what inputs that was measured."""
    cell = _cheapest_exact(cells)
    if cell is None or cell.findings is None or cell.findings.certificate is None:
        return []
    certificate = cell.findings.certificate
    return [
        f"On {certificate.points:,} random inputs the outputs of that copy are off by at most "
        f"{certificate.relative_error:.1g} of the model's largest."
    ]


def _behind(defense: str) -> str:
    return "" if defense == "none" else f", behind {defense}"


def _costs(arms: list[Arm]) -> list[str]:
    """What a copy costs where a view is shown; whoever sees it can also do as one who sees less."""
    attackers = _attackers(arms)
    return [
        f"Showing {view}{_behind(defense)}, " + _cost_of_good_copy(within_reach(arms, view, defense))
        for view, defense in dict.fromkeys((arm.view, arm.defense) for arm in attackers)
    ]


def _cost_of_good_copy(group: list[Arm]) -> str:
    found = _cheapest(group)
    if found is not None:
        cost, arm = found
        fewer = f", more than {cost.made_low - 1:,}" if 1 < cost.made_low < (cost.made or 0) else ""
        queries = f"at most {cost.made:,} quer{'y' if cost.made == 1 else 'ies'}{fewer}"
        return f"a {GOOD:.0%} copy costs {queries} ({arm.label}: {_tries(cost)})."
    near = max(group, key=_best_copy)
    if _best_copy(near) >= GOOD:
        return (
            f"{near.label} made a copy that measures {_best_copy(near):.1%}, which {near.inputs:,} test inputs cannot "
            f"tell from less than {GOOD:.0%}."
        )
    most, tries = max(arm.queries for arm in group), sum(arm.seeds for arm in group)
    return f"no attack made a {GOOD:.0%} copy within {most:,} queries in {_count(tries, 'try', 'tries')}."


def _tries(cost: CopyCost) -> str:
    return "" if cost.tries is None else cost.tries.words()


def _cheapest(arms: list[Arm]) -> tuple[CopyCost, Arm] | None:
    costs = [(cost, arm) for arm in arms for cost in arm.costs if cost.fidelity == GOOD and cost.made is not None]
    return min(costs, key=lambda found: found[0].made or 0, default=None)


def _classes(arms: list[Arm]) -> list[str]:
    """What a fidelity hides: the strongest copies class by class, where that is another story."""
    attackers = [arm for arm in _attackers(arms) if arm.constant is not None]
    if not attackers:
        return []
    best = max(attackers, key=_best_copy)
    if best.constant == 1:
        return ["The model names the same class on every test input: a copy of that costs no more than one query."]
    if not best.unnamed and best.fidelity > (best.constant or 0):
        return []
    missed = f", and never name {_count(best.unnamed, 'class', 'classes')} that the model names" if best.unnamed else ""
    return [
        f"With every class counted once, the copies of {best.label} agree on {best.balanced:.1%}, in the class they "
        f"know least on {best.worst:.1%}{missed}; always naming one class agrees on {best.constant:.1%} of inputs."
    ]


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _rates(arms: list[Arm], per_day: int | None) -> list[str]:
    """Days at the most queries the copy may cost; the limit at what no try could do with."""
    found = _cheapest(_attackers(arms))
    if found is None:
        return []
    cost, rate = found[0], per_day or RATE
    days, limit = max(1, round((cost.made or 0) / rate)), cost.short // MONTH
    a_day = f"allow at most {_count(limit, 'query', 'queries')} a day to one client"
    dear = f"to make it cost a month, {a_day}" if limit else "no daily limit is known to make it cost a month"
    return [f"At {rate:,} queries a day a {GOOD:.0%} copy takes {_count(days, 'day', 'days')} at most; {dear}."]


def _transfer(cells: list[CellResult]) -> list[str]:
    """The strongest thief, beside noise of the same size and the white box."""
    groups: dict[tuple[str, str, str], list[Transfer]] = defaultdict(list)
    for cell in cells:
        if cell.transfer is not None and not cell.control:
            groups[arm_label(cell), cell.view, cell.defense].append(cell.transfer)
    if not groups:
        return []
    (label, view, defense), found = max(groups.items(), key=lambda arm: fmean(each.copy_rate.value for each in arm[1]))
    white = [each.white_box_rate.value for each in found if each.white_box_rate is not None]
    against = f"against {fmean(each.noise_rate.value for each in found):.1%} for random noise"
    distance = "" if found[0].eps is None else f" at {found[0].norm} {found[0].eps:.3g}"
    return [
        f"With such a copy ({label}, seeing {view}{_behind(defense)}), "
        f"{fmean(each.copy_rate.value for each in found):.1%} of correct inputs can be flipped{distance} "
        f"({found[0].attack}), {against}" + (f" and {fmean(white):.1%} white-box." if white else ".")
    ]
