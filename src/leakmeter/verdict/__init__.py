"""From cells to an answer: what a copy costs, whether the policy holds, and whether the audit can be believed."""

from __future__ import annotations

from typing import Literal

from leakmeter.plan import Plan
from leakmeter.results import CellResult, Check, Ruling, Verdict
from leakmeter.verdict.arms import arm_label as arm_label
from leakmeter.verdict.arms import make_arms
from leakmeter.verdict.policy import rule
from leakmeter.verdict.recommendation import recommend
from leakmeter.verdict.sentences import headline, sentences
from leakmeter.verdict.soundness import soundness


def judge(plan: Plan, cells: list[CellResult]) -> Verdict:
    """The verdict over all cells."""
    real = plan.data is not None
    arms, checks = make_arms(cells), soundness(cells, real=real)
    rulings = rule(plan.policy, arms, real=real)
    return Verdict(
        outcome=_outcome(rulings, checks),
        headline=headline(arms, cells, real=real),
        sentences=sentences(plan, arms, cells),
        arms=arms,
        rulings=rulings,
        checks=checks,
        recommendation=recommend(plan, arms, cells),
    )


def _outcome(rulings: list[Ruling], checks: list[Check]) -> Literal["pass", "measured", "exceeded", "undecided"]:
    """Exceeded is exceeded, however weak the audit was; a pass needs a policy, and every ruling and check."""
    outcomes = {ruling.outcome for ruling in rulings}
    if "exceeded" in outcomes:
        return "exceeded"
    if "undecided" in outcomes or not all(check.ok for check in checks):
        return "undecided"
    return "pass" if rulings else "measured"
