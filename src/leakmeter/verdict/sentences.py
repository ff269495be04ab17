"""The verdict in plain words."""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean

from leakmeter.errors import LeakmeterError
from leakmeter.evaluation.cheaper import cheaper
from leakmeter.evaluation.transfer import Transfer
from leakmeter.plan import Plan
from leakmeter.results import Arm, CellResult

GOOD = 0.9  # the fidelity of a copy worth stealing
RATE = 1000  # queries a day, where the plan states no limit
MONTH = 30


def headline(arms: list[Arm], cells: list[CellResult]) -> str:
    """The answer in one sentence; an exact copy before all others."""
    if (exact := _cheapest_exact(cells)) is not None:
        return (
            f"The model was copied exactly from {_asked(exact):,} queries "
            f"({exact.attack}, seeing {exact.view}{_behind(exact.defense)})."
        )
    attackers = [arm for arm in arms if not arm.control and arm.defense == "none"] or _attackers(arms)
    if not attackers:
        return "No attack was measured."
    best = max(attackers, key=lambda arm: arm.fidelity)
    return (
        f"An outsider with {best.queries:,} queries gets a copy that agrees with the model on "
        f"{best.fidelity:.1%} of inputs ({best.label}, seeing {best.view}{_behind(best.defense)})."
    )


def sentences(plan: Plan, arms: list[Arm], cells: list[CellResult]) -> list[str]:
    """What a copy costs under each view and defense, what a rate limit does, what the copy and explanations give."""
    return [
        *_exactness(plan, cells),
        *_costs(arms),
        *_rates(arms, plan.queries_per_day),
        *_transfer(cells),
        *_explanations(cells),
    ]


def _attackers(arms: list[Arm]) -> list[Arm]:
    return [arm for arm in arms if not arm.control]


def _cheapest_exact(cells: list[CellResult]) -> CellResult | None:
    """Of the cells that ended with the model itself, an undefended one first, the one that asked least."""
    exact = [cell for cell in cells if not cell.control and cell.findings is not None and cell.findings.exact]
    return min(exact, key=lambda cell: (cell.defense != "none", _asked(cell)), default=None)


def _asked(cell: CellResult) -> int:
    return cell.budget if cell.spending is None else cell.spending.queries


def _exactness(plan: Plan, cells: list[CellResult]) -> list[str]:
    """How exact the exact copy is, and on what inputs that was measured."""
    cell = _cheapest_exact(cells)
    if cell is None or cell.findings is None or cell.findings.certificate is None:
        return []
    certificate = cell.findings.certificate
    line = (
        f"On {certificate.points:,} random inputs the outputs of that copy are off by at most "
        f"{certificate.relative_error:.1g} of the model's largest."
    )
    return [line] if plan.data is not None else [line, "There was no test data: agreement is that on these inputs."]


def _behind(defense: str) -> str:
    return "" if defense == "none" else f", behind {defense}"


def _costs(arms: list[Arm]) -> list[str]:
    surfaces: dict[tuple[str, str], list[Arm]] = defaultdict(list)
    for arm in _attackers(arms):
        surfaces[arm.view, arm.defense].append(arm)
    lines = []
    for (view, defense), group in surfaces.items():
        found = _cheapest(group)
        shown = f"Showing {view}{_behind(defense)}"
        if found is None:
            most = max(arm.queries for arm in group)
            lines.append(f"{shown}, no attack made a {GOOD:.0%} copy within {most:,} queries.")
        else:
            queries, arm = found
            about = "at most" if queries <= arm.curve[0][0] else "about"
            lines.append(f"{shown}, a {GOOD:.0%} copy costs {about} {queries:,} queries ({arm.label}).")
    return lines


def _cheapest(arms: list[Arm]) -> tuple[int, Arm] | None:
    costs = [(cost.queries, arm) for arm in arms for cost in arm.costs if cost.fidelity == GOOD and cost.queries]
    return min(costs, key=lambda cost: cost[0], default=None)


def _rates(arms: list[Arm], per_day: int | None) -> list[str]:
    found = _cheapest(_attackers(arms))
    if found is None:
        return []
    queries, rate = found[0], per_day or RATE
    days = max(1, round(queries / rate))
    return [
        f"At {rate:,} queries a day a {GOOD:.0%} copy takes about {days} day{'s' if days > 1 else ''}; to make it cost "
        f"a month, allow at most {max(1, queries // MONTH):,} queries a day to one client."
    ]


def _transfer(cells: list[CellResult]) -> list[str]:
    """The strongest thief, beside noise of the same size and the white box."""
    groups: dict[tuple[str, str], list[Transfer]] = defaultdict(list)
    for cell in cells:
        if cell.transfer is not None and not cell.control:
            groups[cell.attack, cell.view].append(cell.transfer)
    if not groups:
        return []
    (attack, view), found = max(groups.items(), key=lambda group: fmean(each.copy_rate.value for each in group[1]))
    white = [each.white_box_rate.value for each in found if each.white_box_rate is not None]
    against = f"against {fmean(each.noise_rate.value for each in found):.1%} for random noise"
    distance = "" if found[0].eps is None else f" at {found[0].norm} {found[0].eps:.3g}"
    return [
        f"With such a copy ({attack}, seeing {view}), {fmean(each.copy_rate.value for each in found):.1%} of correct "
        f"inputs can be flipped{distance} ({found[0].attack}), {against}"
        + (f" and {fmean(white):.1%} white-box." if white else ".")
    ]


def _explanations(cells: list[CellResult]) -> list[str]:
    """What showing explanations adds, for each view that was measured with and without."""
    lines = []
    for view in dict.fromkeys(cell.view for cell in cells if "+" in cell.view):
        plain = view.partition("+")[0]
        with_them, without = _curves(cells, view), _curves(cells, plain)
        seeds = sorted(with_them.keys() & without.keys())
        if not seeds:
            continue
        try:
            found = cheaper([without[seed] for seed in seeds], [with_them[seed] for seed in seeds])
        except LeakmeterError:
            continue
        line = found.line(view.partition("+")[2], plain)
        lines.append(line[0].upper() + line[1:] + ".")
    return lines


def _curves(cells: list[CellResult], view: str) -> dict[int, list[tuple[int, float]]]:
    """For each seed the best undefended attack's curve under this view."""
    best: dict[int, CellResult] = {}
    for cell in cells:
        if cell.view != view or cell.control or cell.defense != "none" or not cell.curve:
            continue
        if cell.seed not in best or _final(cell) > _final(best[cell.seed]):
            best[cell.seed] = cell
    return {
        seed: [(point.queries, point.score.fidelity) for point in cell.curve if point.score is not None]
        for seed, cell in best.items()
    }


def _final(cell: CellResult) -> float:
    return cell.final.score.fidelity if cell.final is not None and cell.final.score is not None else 0.0
