"""The verdict: costs against hand computations, and no way for a broken audit to pass."""

import pytest

from leakmeter.evaluation.intervals import exact
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
        fidelity_interval=exact(k, n),
        accuracy=k / n,
        accuracy_interval=exact(k, n),
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


def test_a_cost_lies_between_two_points_and_starts_at_one_query() -> None:
    (arm,) = make_arms([cell({100: 0.5, 1000: 0.95}, s) for s in range(3)])
    cost = {cost.fidelity: cost for cost in arm.costs}
    assert (cost[0.9].made_low, cost[0.9].made, cost[0.9].queries) == (101, 1000, 1000)
    assert (cost[0.9].low, cost[0.9].high) == (101, None)  # three seeds that agree do not bound a mean from below
    assert cost[0.95].made is None  # on 1,000 inputs it may as well be 0.94
    assert cost[0.9].tries is not None
    assert (cost[0.9].tries.reached, cost[0.9].tries.made) == (3, 3)
    (early,) = make_arms([cell({100: 0.95, 1000: 0.99}, s) for s in range(3)])
    assert (early.costs[1].made_low, early.costs[1].made, early.costs[1].low) == (1, 100, 1)


def test_an_arm_carries_the_attack_and_the_copies_apart() -> None:
    (arm,) = make_arms([cell({1000: f}, s) for s, f in enumerate((0.93, 0.94, 0.95))])
    assert arm.copies == [[0.93, 0.94, 0.95]]
    assert arm.copies_interval is not None
    assert arm.copies_interval.low > 0.92
    assert arm.fidelity_interval.low < 0.3  # a seed in two may fail, and three have not shown it
    assert 0.97 < arm.fidelity_interval.high < 1


def test_seeds_that_stop_at_different_queries_are_one_arm() -> None:
    (arm,) = make_arms([cell({60: 1.0}, 0), cell({80: 0.28}, 1), cell({70: 1.0}, 2)])
    assert (arm.queries, arm.seeds, arm.fidelity) == (80, 3, pytest.approx(0.76))
    assert arm.costs[1].made == 60
    assert arm.costs[1].tries is not None
    assert arm.costs[1].tries.reached == 2


def test_a_thief_tries_again() -> None:
    """Two copies of three are perfect: the mean of 76 % is no protection."""
    cells = [cell({100: f}, s) for s, f in enumerate((1.0, 0.28, 1.0))]
    verdict = judge(plan(max_fidelity={"queries": 100, "value": 0.9}), cells)
    assert verdict.outcome == "exceeded"
    assert "2 of 3 tries reach 90.0%" in verdict.rulings[0].message


def test_three_seeds_that_cannot_support_a_pass_name_the_seeds_it_takes() -> None:
    limit = {"queries": 1000, "value": 0.85}
    three = judge(plan(max_fidelity=limit), [cell({1000: 0.7}, s) for s in range(3)])
    assert three.outcome == "undecided"
    wanted = int(three.rulings[0].message.split("it would take ")[1].split()[0])
    for seeds, outcome in ((wanted - 1, "undecided"), (wanted, "pass")):
        assert judge(plan(max_fidelity=limit), [cell({1000: 0.7}, s) for s in range(seeds)]).outcome == outcome


def test_a_share_of_tries_can_be_asked_for() -> None:
    limit = {"queries": 1000, "value": 0.95, "share": 0.5}
    for seeds, outcome in ((5, "undecided"), (6, "pass")):  # 0.5^6 < 0.025 < 0.5^5
        assert judge(plan(max_fidelity=limit), [cell({1000: 0.3}, s) for s in range(seeds)]).outcome == outcome


@pytest.mark.parametrize(
    ("fidelity", "value", "outcome"),
    [(0.95, 0.85, "exceeded"), (0.40, 0.85, "pass"), (0.85, 0.85, "undecided")],
)
def test_policy_gate(fidelity: float, value: float, outcome: str) -> None:
    cells = [cell({1000: fidelity}, s) for s in range(3)]
    verdict = judge(plan(max_fidelity={"queries": 1000, "value": value}), cells)
    assert verdict.outcome == outcome


def test_a_budget_too_small_for_the_policy_is_undecided() -> None:
    verdict = judge(plan(max_fidelity={"queries": 100_000, "value": 0.85}), [cell({1000: 0.5})])
    assert verdict.outcome == "undecided"
    assert "raise the budget to 100,000" in verdict.rulings[0].message


def test_min_copy_cost_is_the_same_line_seen_from_the_side() -> None:
    policy = {"min_copy_cost": {"fidelity": 0.9, "queries": 500}}
    assert judge(plan(**policy), [cell({500: 0.95, 1000: 0.96})]).outcome == "exceeded"
    assert judge(plan(**policy), [cell({500: 0.6, 1000: 0.96}, s) for s in range(3)]).outcome == "pass"


def test_control_arms_do_not_decide_the_policy() -> None:
    cells = [*(cell({1000: 0.4}, s) for s in range(3)), cell({1000: 0.99}, control=True, options={"pool": "mnist"})]
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
