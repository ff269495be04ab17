"""The verdict: costs against hand computations, and no way for a broken audit to pass."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from leakmeter.evaluation.by_class import ByClass
from leakmeter.evaluation.intervals import exact
from leakmeter.evaluation.score import Score
from leakmeter.evaluation.transfer import FlipRate, Transfer
from leakmeter.extraction.base import CurvePoint
from leakmeter.extraction.certificate import CopyCertificate
from leakmeter.extraction.findings import Findings
from leakmeter.plan import make_plan
from leakmeter.results import SCHEMA_VERSION, AuditResult, CellResult, Spending
from leakmeter.verdict import judge
from leakmeter.verdict.arms import make_arms

ROOT = Path(__file__).parents[2]


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
    return make_plan(
        {"victim": {"source": "a:b"}, "data": {"name": "digits"}, "attacks": [{"name": "surrogate"}], "policy": policy}
    )


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


def failed(cells: list[CellResult]) -> set[str]:
    return {check.name for check in judge(plan(), cells).checks if not check.ok}


@pytest.mark.parametrize("attack", ["dast", "dfme", "codfe", "procedural"])
def test_a_collapse_is_seen_whatever_the_attack(attack: str) -> None:
    even, one_class = (Findings(class_entropy=share) for share in (0.9, 0.01))
    assert failed([cell({100: 0.3}, attack=attack, findings=even)]) == set()
    assert failed([cell({100: 0.3}, attack=attack, findings=one_class)]) == {"queries diverse"}
    assert failed([cell({100: 0.3}, attack=attack, notes={"class_entropy": 0.0, "collapsed": True})]) == set()


def exact_cell(*, exact: bool = True, complete: bool = True, **more) -> CellResult:
    certificate = CopyCertificate(points=1000, outputs="logits", max_error=0, relative_error=0, bits=None, exact=exact)
    findings = Findings(class_entropy=0.1, complete=complete, units=16, certificate=certificate)
    return cell({340: 1.0}, attack="exact", view="logits+gradient", findings=findings, **{"budget": 5000, **more})


def test_an_exact_copy_is_the_headline_and_needs_no_more_budget() -> None:
    verdict = judge(plan(), [cell({340: 0.99}, seed=1), exact_cell()])
    sentence = "The model was copied exactly from 340 queries (exact, seeing logits+gradient)."
    assert (verdict.headline, verdict.outcome) == (sentence, "measured")
    limit = {"max_fidelity": {"queries": 5000, "value": 0.9}}
    assert judge(plan(**limit), [exact_cell()]).outcome == "exceeded"


@pytest.mark.parametrize("doubt", [{"exact": False}, {"complete": False}])
def test_a_claim_without_a_certificate_is_an_attack_that_stopped_early(doubt: dict[str, bool]) -> None:
    verdict = judge(plan(), [exact_cell(**doubt)])
    assert "exactly" not in verdict.headline
    assert "budget spent" in {check.name for check in verdict.checks if not check.ok}


def test_the_exact_copy_of_an_undefended_model_is_named_first() -> None:
    cells = [exact_cell(defense="top:3"), exact_cell(seed=1)]
    assert "behind" not in judge(plan(), cells).headline
    assert judge(plan(), cells[:1]).headline.endswith("behind top:3).")


def test_results_of_the_first_version_are_read_and_have_no_findings() -> None:
    old = AuditResult.read(ROOT / "results" / "defenses-digits")
    assert old.schema_version == 1
    assert all(cell.findings is None for cell in old.cells)
    newer = old.model_dump_json().replace('"schema_version":1', f'"schema_version":{SCHEMA_VERSION + 1}')
    with pytest.raises(ValidationError, match="schema_version"):
        AuditResult.model_validate_json(newer)


def test_transfer_is_told_of_one_arm_never_averaged_over_defenses() -> None:
    def flipped(value: float) -> Transfer:
        rate = FlipRate(value=value, n=100, interval=exact(round(100 * value), 100))
        return Transfer(
            attack="pgd",
            norm="linf",
            eps=0.1,
            targeted=False,
            copy_rate=rate,
            noise_rate=rate.model_copy(update={"value": 0.05}),
            untrained_rate=None,
            white_box_rate=None,
        )

    bare = [cell({100: 0.9}, seed, transfer=flipped(value)) for seed, value in ((0, 0.5), (1, 0.54))]
    defended = [cell({100: 0.6}, seed, defense="rounding:1", transfer=flipped(0.24)) for seed in (2, 3)]
    (told,) = [line for line in judge(plan(), bare + defended).sentences if "flipped" in line]
    assert told.startswith("With such a copy (surrogate, seeing probs), 52.0% of correct inputs can be flipped")
    (told,) = [line for line in judge(plan(), defended).sentences if "flipped" in line]
    assert told.startswith("With such a copy (surrogate, seeing probs, behind rounding:1), 24.0% of")


def test_the_more_copies_are_looked_at_the_surer_one_must_be() -> None:
    """0.92 of 1,000 is surely above 0.9 when it is the only copy, and not as the best of thirty."""
    limit = plan(max_fidelity={"queries": 1000, "value": 0.9})
    assert judge(limit, [cell({1000: 0.92})]).rulings[0].outcome == "exceeded"
    many = [cell({1000: 0.92}), *(cell({1000: 0.3}, seed) for seed in range(1, 30))]
    assert judge(limit, many).rulings[0].outcome == "undecided"


def test_the_figures_of_an_arm_are_those_of_the_final_copies() -> None:
    """Accuracy and classes of the last point of each seed, not of the curve."""

    def beside(balanced: float, unnamed: int) -> ByClass:
        facts = {"worst": balanced / 2, "worst_class": 0, "worst_n": 9, "constant": 0.3, "majority": 0.2}
        return ByClass(balanced=balanced, unnamed=unnamed, **facts)

    def seeded(seed: int, balanced: float, unnamed: int) -> CellResult:
        made = cell({10: 0.1, 100: 0.5 + seed / 10}, seed)
        first, last = made.curve
        assert first.score is not None
        assert last.score is not None
        first = first.model_copy(update={"score": first.score.model_copy(update={"by_class": beside(0.0, 9)})})
        last = last.model_copy(update={"score": last.score.model_copy(update={"by_class": beside(balanced, unnamed)})})
        return made.model_copy(update={"curve": [first, last]})

    (arm,) = make_arms([seeded(0, 0.4, 2), seeded(1, 0.6, 1)])
    assert arm.accuracy == pytest.approx(0.55)
    assert (arm.balanced, arm.worst, arm.unnamed) == (pytest.approx(0.5), pytest.approx(0.25), 1)
    assert (arm.constant, arm.majority) == (0.3, 0.2)
    assert [point[0] for point in arm.curve] == [10, 100]
    assert arm.curve[1][1] == pytest.approx(0.55)


def test_an_arm_begins_where_every_seed_has_a_copy_and_costs_where_the_first_has() -> None:
    (arm,) = make_arms([cell({100: 0.95}, 0), cell({10: 0.99, 100: 0.97}, 1)])
    assert [point[0] for point in arm.curve] == [100]
    assert arm.costs[1].made == 10
    nothing = cell({100: 0.95}).model_copy(update={"curve": [CurvePoint(queries=5, score=None)]})
    assert make_arms([nothing]) == []


def test_a_copy_that_never_agrees_is_worth_nothing_and_not_everything() -> None:
    (arm,) = make_arms([cell({10: 0.0, 100: 0.0}, 0), cell({10: 0.5, 100: 0.0}, 1)])
    assert arm.copies == [[0.0, 0.5], [0.0, 0.0]]
    assert arm.costs[0].made is None


@pytest.mark.parametrize(
    ("rates", "told"),
    [
        (
            (0.6, 0.7),
            "surrogate under probs reaches 65.0% on average over 2 seeds, which cannot exclude up to ",
        ),
        ((0.7,), "surrogate under probs reaches 70.0% on average over 1 seed, which cannot exclude up to "),
        ((0.84, 0.2), "surrogate under probs reaches 84.0% in its best try (81.6% to 86.2% on all inputs): 1,000 test"),
    ],
)
def test_what_stays_open_is_told_with_its_figures(rates: tuple[float, ...], told: str) -> None:
    limit = plan(max_fidelity={"queries": 1000, "value": 0.85})
    ruling = judge(limit, [cell({1000: rate}, seed) for seed, rate in enumerate(rates)]).rulings[0]
    assert ruling.outcome == "undecided"
    assert ruling.message.startswith(told)


def test_a_pass_is_told_with_its_figures_and_a_share_with_the_seeds_it_takes() -> None:
    limit = plan(max_fidelity={"queries": 1000, "value": 0.95, "share": 0.5})
    cells = [cell({1000: rate}, seed, defense="top:3") for seed, rate in enumerate((0.3, 0.4, 0.3, 0.3, 0.3, 0.3))]
    passed, short = (judge(limit, some).rulings[0] for some in (cells, cells[:5]))
    assert passed.message.startswith(
        "the strongest, surrogate under probs behind top:3, reaches 40.0% in its best try and at most "
    )
    assert passed.message.endswith("below 95.0%; 0 of 6 tries reach 95.0% (0% to 46% of all would)")
    assert short.message.endswith("more than the 50% allowed; 6 seeds, all of them short of the line, would settle it")


def test_a_line_below_what_a_constant_gets_is_no_line() -> None:
    def rare(balanced: float) -> CellResult:
        made = cell({1000: 0.99})
        facts = {"worst": 0.0, "worst_class": 1, "worst_n": 9, "unnamed": 1, "constant": 0.97}
        last = made.curve[0].score
        assert last is not None
        last = last.model_copy(update={"by_class": ByClass(balanced=balanced, **facts)})
        return made.model_copy(update={"curve": [CurvePoint(queries=1000, score=last)]})

    def outcome(balanced: float, value: float) -> str:
        return judge(plan(max_fidelity={"queries": 1000, "value": value}), [rare(balanced)]).rulings[0].outcome

    assert outcome(0.5, 0.95) == "undecided"
    assert outcome(0.5, 0.97) == "undecided"  # a constant reaches a line it is exactly at
    assert outcome(0.95, 0.95) == "exceeded"  # with every class counted once it is a copy all the same
    assert outcome(0.5, 0.975) == "exceeded"
