"""No defended row reads safer than an attacker who throws away what the defense spoiled."""

from leakmeter.evaluation.intervals import exact
from leakmeter.evaluation.score import Score
from leakmeter.extraction.base import CurvePoint
from leakmeter.plan import Plan
from leakmeter.results import CellResult
from leakmeter.verdict.arms import make_arms
from leakmeter.verdict.closure import truncated, within_reach

N = 1000


def cell(curve: dict[int, float], view: str = "probs", defense: str = "none", control: bool = False) -> CellResult:
    points = [CurvePoint(queries=queries, score=score(fidelity)) for queries, fidelity in curve.items()]
    about = {"attack": "surrogate", "view": view, "defense": defense, "control": control, "budget": max(curve)}
    return CellResult(id="c", seed=0, status="done", curve=points, **about)


def score(fidelity: float) -> Score:
    facts = {"accuracy": None, "accuracy_interval": None, "victim_accuracy": None, "kl": None, "max_error": None}
    return Score(n=N, fidelity=fidelity, fidelity_interval=exact(fidelity * N, N), **facts)


def reached(cells: list[CellResult], view: str, defense: str) -> float:
    return max(max(arm.copies[-1]) for arm in within_reach(make_arms(cells), view, defense))


def test_labels_alone_count_behind_a_defense_that_keeps_them() -> None:
    cells = [
        cell({100: 0.9}, view="labels"),
        cell({100: 0.3}, defense="mad-argmax:1"),
        cell({100: 0.2}, defense="mad:1"),
    ]
    assert reached(cells, "probs", "mad-argmax:1") == 0.9
    assert reached(cells, "probs", "mad:1") == 0.2  # changes labels: nobody saw those
    assert reached([*cells, cell({100: 0.6}, view="labels", defense="mad:1")], "probs", "mad:1") == 0.6


def test_knowing_a_defense_is_never_a_handicap() -> None:
    cells = [cell({100: 0.8}, defense="rounding:1"), cell({100: 0.5}, defense="rounding:1/adaptive")]
    assert reached(cells, "probs", "rounding:1/adaptive") == 0.8
    assert reached(cells[::-1], "probs", "rounding:1") == 0.8
    knowing = [cell({100: 0.8}, defense="rounding:1/adaptive"), cell({100: 0.5}, defense="rounding:1")]
    assert reached(knowing, "probs", "rounding:1") == 0.5  # this one does not know


def test_behind_a_limit_counts_what_others_had_by_then() -> None:
    cells = [cell({50: 0.6, 100: 0.9}), cell({50: 0.4}, defense="limit:60")]
    assert reached(cells, "probs", "limit:60") == 0.6
    arm = make_arms(cells[:1])[0]
    assert truncated(arm, 10) is None
    cut = truncated(arm, 99)
    assert cut is not None
    assert (cut.queries, cut.fidelity, len(cut.copies)) == (50, 0.6, 1)
    assert truncated(arm, 100) == arm


def test_controls_and_other_defenses_do_not_count() -> None:
    cells = [cell({100: 0.3}, defense="noise:0.1"), cell({100: 0.9}), cell({100: 0.95}, view="labels", control=True)]
    assert reached(cells, "probs", "noise:0.1") == 0.3
    assert reached([*cells, cell({100: 0.4}, defense="a-plugin:1")], "probs", "a-plugin:1") == 0.4


def plan(**changes: object) -> Plan:
    attack = {"name": "surrogate", "pool": "gaussian"}
    return Plan.model_validate({"victim": {"source": "here"}, "attacks": [attack], "seeds": [0], **changes})


def surfaces(made: Plan) -> list[tuple[str, str]]:
    return [(cell.view, cell.defense) for cell in made.cells()]


def test_a_plan_tries_labels_wherever_a_defense_may_spoil_more() -> None:
    keeping = plan(views=["probs"], defenses=["none", "noise:0.1", "noise:0.1/adaptive", "mad-argmax:1"])
    assert surfaces(keeping)[4:] == [("labels", "none")]
    changing = plan(views=["probs"], defenses=["none", "mad:1/adaptive", "rounding:1", "limit:10"])
    assert surfaces(changing)[4:] == [("labels", "mad:1"), ("labels", "rounding:1")]
    assert surfaces(plan(views=["probs"], defenses=["noise:0.1"]))[1:] == [("labels", "noise:0.1")]
    assert len(surfaces(plan(views=["probs", "labels"], defenses=["none", "mad:1"]))) == 4
    assert len(surfaces(plan(views=["probs"]))) == 1
    assert len(surfaces(plan(views=["probs"], defenses=["mad:1"], label_only=False))) == 1


def test_a_limit_ends_the_budget_and_the_ladder() -> None:
    bare, limited = plan(views=["probs"], defenses=["none", "limit:300"], budget=1000, stops=[100, 500]).cells()
    assert (bare.budget, bare.stops) == (1000, (100, 500, 1000))
    assert (limited.budget, limited.stops) == (300, (100, 300))
