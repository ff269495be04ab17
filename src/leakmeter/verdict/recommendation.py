"""The cheapest defense and limit with which the policy holds, of those that were tried."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from leakmeter.defenses import ADAPTIVE, NONE
from leakmeter.evaluation.intervals import CONFIDENCE, exact
from leakmeter.evaluation.utility import Utility
from leakmeter.plan import HonestCost, Plan, Policy
from leakmeter.results import Arm, CellResult, Recommendation, Remedy
from leakmeter.verdict.closure import parsed, plain, truncated, within_reach
from leakmeter.verdict.policy import rule


def recommend(plan: Plan, arms: Sequence[Arm], cells: Sequence[CellResult]) -> Recommendation | None:
    """What holds within the allowed cost, cheapest first; None where there is no policy, or no data to rule by."""
    if plan.policy == Policy() or not arms or plan.data is None:
        return None
    options = list(_options(arms, cells))
    remedies = [remedy for option in options for remedy in _remedies(option, plan.policy)]
    allowed = [remedy for remedy in remedies if _allowed(remedy, plan.honest)]
    return Recommendation(
        remedies=sorted(allowed, key=_cost),
        tried=len(options),
        too_dear=sorted((each for each in remedies if each not in allowed), key=_cost),
    )


@dataclass(frozen=True)
class _Option:
    """A view behind a defense, with every attacker against it, knowing ones too, and what honest users pay."""

    view: str
    defense: str
    arms: list[Arm]
    known: bool
    """Whether attackers who know the defense were tried, or there is nothing to know."""
    paid: Utility


def _options(arms: Sequence[Arm], cells: Sequence[CellResult]) -> Iterator[_Option]:
    paid = {(cell.view, plain(cell.defense)): _utility(cell.notes) for cell in reversed(cells)}
    surfaces = dict.fromkeys((arm.view, plain(arm.defense)) for arm in arms if not arm.control)
    for view, defense in surfaces:
        knowing = any(arm.defense == defense + ADAPTIVE for arm in arms)
        reached = within_reach(arms, view, defense + ADAPTIVE if knowing else defense)
        yield _Option(view, defense, reached, knowing or not _undoable(defense), paid.get((view, defense), Utility()))


def _remedies(option: _Option, policy: Policy) -> Iterator[Remedy]:
    """With the highest limit measured that makes it sure, and before that the highest that seeds leave open."""
    stops = sorted({point[0] for arm in option.arms for point in arm.curve}, reverse=True)
    doubted = False
    for limit in (None, *stops[1:]):
        cut = [each for arm in option.arms if (each := arm if limit is None else truncated(arm, limit)) is not None]
        doubt = _standing(policy if limit is None else _limited(policy, limit), cut) if cut else None
        if doubt == "" or (doubt and not doubted):
            doubted = True
            yield _remedy(option, cut, limit, doubt)
        if doubt == "":
            return


def _standing(policy: Policy, arms: list[Arm]) -> str | None:
    """Empty where the policy holds; why that is not sure though no copy may be above a line; None: some copy may be."""
    rulings = rule(policy, arms)
    doubts = [ruling.message for ruling in rulings if ruling.outcome != "pass"]
    if not doubts:
        return ""
    lines = [policy.max_fidelity.value] if policy.max_fidelity else []
    lines += [policy.min_copy_cost.fidelity] if policy.min_copy_cost else []
    highest = max(exact(max(arm.copies[-1]) * arm.inputs, arm.inputs).high for arm in arms)
    return doubts[0] if highest < min(lines) else None


def _limited(policy: Policy, limit: int) -> Policy:
    """What the policy asks of clients who get no more than `limit` answers."""
    changes: dict[str, Any] = {}
    for name in ("max_fidelity", "min_copy_cost"):
        line = getattr(policy, name)
        if line is not None:
            changes[name] = line.model_copy(update={"queries": min(line.queries, limit)})
    return policy.model_copy(update=changes)


def _remedy(option: _Option, arms: list[Arm], limit: int | None, doubt: str) -> Remedy:
    best = max(arms, key=lambda arm: max(arm.copies[-1]))
    fidelity, looks = max(best.copies[-1]), sum(arm.seeds for arm in arms)
    return Remedy(
        view=option.view,
        defense=option.defense,
        limit=limit,
        doubt=doubt,
        fidelity=fidelity,
        interval=exact(fidelity * best.inputs, best.inputs, 1 - (1 - CONFIDENCE) / looks),
        attack=best.label,
        knowing=option.known,
        accuracy_loss=option.paid.accuracy_loss,
        distortion=option.paid.distortion,
        agreement=option.paid.agreement_interval,
    )


def _allowed(remedy: Remedy, honest: HonestCost) -> bool:
    cheap = honest.allows(remedy.accuracy_loss, remedy.distortion)
    return cheap and (honest.queries is None or remedy.limit is None or remedy.limit >= honest.queries)


def _cost(remedy: Remedy) -> tuple[float, ...]:
    """What is sure first; then accuracy, then probability moved, then what a limit takes."""
    return (
        float(bool(remedy.doubt)),
        max(remedy.accuracy_loss or 0.0, 0.0),
        remedy.distortion or 0.0,
        0.0 if remedy.limit is None else 1.0 / remedy.limit,
    )


def _undoable(defense: str) -> bool:
    known = parsed(defense)
    return defense != NONE and known is not None and known.undoable


def _utility(notes: dict[str, Any]) -> Utility:
    try:
        return Utility.model_validate(notes.get("utility") or {})
    except ValidationError:  # notes are anybody's
        return Utility()
