"""Plans: what is wrong is said in one sentence, and what is right becomes cells with stable names."""

import tomllib

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from leakmeter.errors import UsageError
from leakmeter.plan import make_plan, read_plan

BASE = {"victim": {"source": "shop:net"}, "attacks": [{"name": "surrogate"}]}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"budgets": 5}, r"has no key 'budgets'; did you mean 'budget'\?"),
        (
            {"victim": {"source": "a:b", "input_shap": [1]}},
            r"has no key 'victim.input_shap'; did you mean 'input_shape'",
        ),
        ({"policy": {"max_fidelty": {}}}, r"has no key 'policy.max_fidelty'; did you mean 'max_fidelity'"),
        ({"budget": 0}, r"'budget'.*greater than or equal to 1"),
        ({"budget": 10, "stops": [20]}, r"stops between 1 and the budget of 10, got 20"),
        ({"views": ["prob"]}, r"unknown view 'prob'; did you mean 'probs'"),
        ({"attacks": [{"name": "surogate"}]}, r"unknown attack 'surogate'; did you mean 'surrogate'"),
        ({"attacks": [{"name": "surrogate", "poool": "x"}]}, r"no option 'poool'; did you mean 'pool'"),
        ({"seeds": []}, r"at least one seed"),
        ({"seeds": [0, 1, 0]}, r"each of seeds once, got 0 more often"),
        ({"defenses": ["rounding:1", "rounding:01"]}, r"each of defenses once, got rounding:1 more often"),
    ],
)
def test_mistakes_are_named(change: dict, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence) as told:
        make_plan({**BASE, **change})
    assert "\n" not in str(told.value)


def test_missing_victim_is_named() -> None:
    with pytest.raises(UsageError, match="lacks 'victim'"):
        make_plan({"attacks": []})


def test_cells_are_the_product_with_unique_stable_names() -> None:
    plan = make_plan({**BASE, "views": ["probs", "top:3"], "seeds": [0, 7], "budget": 800})
    cells = list(plan.cells())
    assert len({cell.id for cell in cells}) == len(cells) == 4
    assert {(cell.view, cell.seed) for cell in cells} == {("probs", 0), ("probs", 7), ("top:3", 0), ("top:3", 7)}
    assert all(cell.stops == (1, 8, 88, 266, 800) for cell in cells)
    assert all("/" not in cell.id and ":" not in cell.id for cell in cells)


def test_unbounded_sides_become_none() -> None:
    plan = make_plan({**BASE, "victim": {"source": "a:b", "low": float("-inf"), "high": 1.0}})
    assert plan.victim.keywords() == {"low": None, "high": 1.0}


@given(
    st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.dictionaries(st.text(), inner))
)
def test_any_content_is_a_plan_or_one_sentence(content: object) -> None:
    if isinstance(content, dict):
        with pytest.raises(UsageError):
            make_plan(content)


def test_toml_round_trip(tmp_path) -> None:
    plan = make_plan({**BASE, "policy": {"max_fidelity": {"queries": 100, "value": 0.5}}})
    text = tomli_w.dumps(plan.model_dump(mode="json", exclude_none=True))
    path = tmp_path / "plan.toml"
    path.write_text(text)
    assert make_plan(read_plan(path)) == plan
    assert tomllib.loads(text)["budget"] == 5000


def test_unreadable_plans_are_named(tmp_path) -> None:
    with pytest.raises(UsageError, match="there is no plan"):
        read_plan(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("a = [")
    with pytest.raises(UsageError, match="is not TOML"):
        read_plan(tmp_path / "bad.toml")


def test_explanations_to_compare_become_views_for_attacks_that_read_them() -> None:
    attacks = [{"name": "surrogate"}, {"name": "gradients"}, {"name": "gradients", "control": True}]
    content = {"victim": {"source": "a:b"}, "attacks": attacks, "seeds": [0], "views": ["probs", "labels+gradient"]}
    plan = make_plan({**content, "explanations": ["gradient", "smoothgrad", "reasons:3/sign"]})
    assert plan.explanations == ("gradient", "smoothgrad:10,0.1", "reasons:3/sign")
    more = [cell for cell in plan.cells() if cell.view not in plan.views]
    assert [(cell.attack, cell.view) for cell in more] == [("gradients", f"probs+{each}") for each in plan.explanations]
    assert not any(cell.control for cell in more)
    with pytest.raises(UsageError, match="unknown explanation 'gradeint'; did you mean 'gradient'"):
        make_plan({**content, "explanations": ["gradeint"]})


def test_an_attack_that_reads_labels_alone_is_not_asked_again_where_more_is_shown() -> None:
    content = {"victim": {"source": "a:b"}, "attacks": [{"name": "plain"}, {"name": "auto"}], "seeds": [0]}
    cells = list(make_plan({**content, "views": ["probs", "labels", "probs:2"]}).cells())
    assert [cell.view for cell in cells if cell.attack == "plain"] == ["labels"]
    assert [cell.view for cell in cells if cell.attack == "auto"] == ["probs", "labels", "probs:2"]
    cells = list(make_plan({**content, "views": ["probs", "probs:2"]}).cells())
    assert [cell.view for cell in cells if cell.attack == "plain"] == ["probs:2"]
    cells = list(make_plan({**content, "views": ["probs"], "defenses": ["none", "rounding:1"]}).cells())
    where = [(cell.view, cell.defense) for cell in cells if cell.attack == "plain"]
    assert where == [("probs", "none"), ("labels", "rounding:1")]


def test_explanations_are_compared_at_more_stops_where_answers_are_few() -> None:
    plain = make_plan({**BASE, "budget": 5000})
    assert plain.ladder() == (1, 8, 64, 555, 1666, 5000)
    assert plain.model_copy(update={"explanations": ("gradient",)}).ladder() == (1, 4, 16, 64, 555, 1666, 5000)
