"""Whose copies are within reach of whoever faces a surface: seeing or knowing more never reads as leaking less.

An attacker can throw away what it sees beyond less, what it knows of a defense, and what a defense spoiled. So against
a view behind a defense counts, beside what was measured there, every attacker who saw less behind the same defense, who
did not know of it though this one does, who had only labels where the defense keeps them, and, behind a limit, whoever
was not limited, up to as many queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from leakmeter.defenses import ADAPTIVE, NONE, parse
from leakmeter.defenses.base import Defense
from leakmeter.errors import UsageError
from leakmeter.evaluation.intervals import attack_mean
from leakmeter.oracle.view import contains
from leakmeter.results import Arm, CopyCost


def within_reach(arms: Sequence[Arm], view: str, defense: str) -> list[Arm]:
    """The attackers against `view` behind `defense`, first those who were measured there."""
    attackers = [arm for arm in arms if not arm.control]
    own = [arm for arm in attackers if (arm.view, arm.defense) == (view, defense)]
    most = _most_queries(defense)
    others = [arm for arm in attackers if arm not in own and _can_do_as(view, defense, arm)]
    return own + [cut for arm in others if (cut := arm if most is None else truncated(arm, most)) is not None]


def truncated(arm: Arm, most: int) -> Arm | None:
    """What the arm had by `most` queries; None: no copy yet."""
    kept = sum(point[0] <= most for point in arm.curve)
    if kept == 0 or len(arm.copies) != len(arm.curve):
        return None
    if kept == len(arm.curve):
        return arm
    queries, fidelity, _, _ = arm.curve[kept - 1]
    changes = {
        "queries": queries,
        "fidelity": fidelity,
        "fidelity_interval": attack_mean(arm.copies[kept - 1], arm.inputs),
        "copies": arm.copies[:kept],
        "curve": arm.curve[:kept],
        "costs": [_by_then(cost, most) for cost in arm.costs],
        "whole": False,
        **dict.fromkeys(("copies_interval", "accuracy", "balanced", "worst")),
    }
    return arm.model_copy(update=changes)


def plain(defense: str) -> str:
    """The defense, whoever knows of it."""
    return defense.removesuffix(ADAPTIVE)


def _can_do_as(view: str, defense: str, arm: Arm) -> bool:
    if not contains(view, arm.view):
        return False
    if arm.defense in (defense, plain(defense)):
        return True
    known = parsed(plain(defense))
    if known is None:
        return False
    if known.most_queries is not None or defense == NONE:
        return arm.defense == NONE or _most_queries(arm.defense) is not None
    return known.keeps_label and (arm.view, arm.defense) == ("labels", NONE)


def parsed(text: str) -> Defense | None:
    """The defense; None: results name one that is not installed here."""
    with suppress(UsageError):
        return parse(text)[0]
    return None


def _most_queries(text: str) -> int | None:
    known = parsed(text)
    return None if known is None else known.most_queries


def _by_then(cost: CopyCost, most: int) -> CopyCost:
    made = cost.made if cost.made is not None and cost.made <= most else None
    mean = cost.queries if cost.queries is not None and cost.queries <= most else None
    return cost.model_copy(update={"made": made, "queries": mean, "high": None, "tries": None})
