"""The verdict: costs against hand computations, and no way for a broken audit to pass."""

import math

import pytest

from leakmeter.evaluation.crossing import crossing
from leakmeter.evaluation.intervals import wilson
from leakmeter.evaluation.score import Score
from leakmeter.extraction.base import CurvePoint
from leakmeter.plan import make_plan
from leakmeter.results import CellResult, Spending
from leakmeter.verdict import judge
from leakmeter.verdict.arms import make_arms


def score(fidelity: float, n: int = 1000) -> Score:
    k = round(fidelity * n)
    return Score(
        n=n,
        fidelity=k / n,
        fidelity_interval=wilson(k, n),
        accuracy=k / n,
        accuracy_interval=wilson(k, n),
        victim_accuracy=1.0,
        kl=0.0,
        max_error=0.0,
    )


def cell(curve: dict[int, float], seed: int = 0, **more) -> CellResult:
    points = [CurvePoint(queries=q, score=score(f)) for q, f in curve.items()]
    budget = max(curve)
    facts = {"attack": "surrogate", "view": "probs", "status": "done", "budget": budget, **more}
    return CellResult(id=f"c{seed}", seed=seed, curve=points, spending=Spending(queries=budget), **facts)


def plan(**policy):
    return make_plan({"victim": {"source": "a:b"}, "attacks": [{"name": "surrogate"}], "policy": policy})


def test_crossing_is_straight_on_a_log_axis() -> None:
    assert crossing([(100, 0.8), (10_000, 0.9)], 0.85) == pytest.approx(1000)
    assert crossing([(100, 0.8)], 0.7) == 100
    assert crossing([(100, 0.8), (200, 0.85)], 0.9) is None


def test_costs_carry_the_interval_over_seeds() -> None:
    (arm,) = make_arms(
        [cell({100: 0.7, 1000: 0.95}, 0), cell({100: 0.6, 1000: 0.93}, 1), cell({100: 0.65, 1000: 0.94}, 2)]
    )
    cost = next(cost for cost in arm.costs if cost.fidelity == 0.9)
    share = (0.9 - 0.65) / (0.94 - 0.65)
    assert cost.queries == round(10 ** (2 + share))
    assert cost.low is not None
    assert cost.high is not None
    assert cost.low <= cost.queries <= cost.high
    # Student's t with two degrees of freedom at 97.5 %: 4.3027
    half = 4.302652729911275 * 0.01 / math.sqrt(3)
    assert arm.fidelity_interval.high == pytest.approx(0.94 + half)


@pytest.mark.parametrize(
    ("fidelity", "value", "outcome"),
    [(0.95, 0.85, "exceeded"), (0.70, 0.85, "pass"), (0.85, 0.85, "undecided")],
)
def test_policy_gate(fidelity: float, value: float, outcome: str) -> None:
    verdict = judge(plan(max_fidelity={"queries": 1000, "value": value}), [cell({1000: fidelity})])
    assert verdict.outcome == outcome


def test_a_budget_too_small_for_the_policy_is_undecided() -> None:
    verdict = judge(plan(max_fidelity={"queries": 100_000, "value": 0.85}), [cell({1000: 0.5})])
    assert verdict.outcome == "undecided"
    assert "raise the budget to 100,000" in verdict.rulings[0].message


def test_min_copy_cost_is_the_same_line_seen_from_the_side() -> None:
    policy = {"min_copy_cost": {"fidelity": 0.9, "queries": 500}}
    assert judge(plan(**policy), [cell({500: 0.95, 1000: 0.96})]).outcome == "exceeded"
    assert judge(plan(**policy), [cell({500: 0.6, 1000: 0.96})]).outcome == "pass"


def test_control_arms_do_not_decide_the_policy() -> None:
    cells = [cell({1000: 0.5}), cell({1000: 0.99}, control=True, options={"pool": "mnist"})]
    assert judge(plan(max_fidelity={"queries": 1000, "value": 0.85}), cells).outcome == "pass"


def test_a_failed_cell_is_never_a_pass() -> None:
    failed = CellResult(
        id="x", attack="surrogate", view="probs", seed=0, budget=9, status="failed", error="victim died"
    )
    assert judge(plan(), [cell({1000: 0.5}), failed]).outcome == "undecided"


def test_too_few_test_points_and_unspent_budget_raise_checks() -> None:
    small = CurvePoint(queries=10, score=score(0.5, n=20))
    lazy = CellResult(
        id="x",
        attack="surrogate",
        view="probs",
        seed=0,
        budget=100,
        status="done",
        curve=[small],
        spending=Spending(queries=10),
    )
    verdict = judge(plan(), [lazy])
    assert {check.name for check in verdict.checks if not check.ok} == {"enough test points", "budget spent"}
    assert verdict.outcome == "undecided"
