import pytest
from typer.testing import CliRunner

from leakmeter.cli import app
from leakmeter.report.compare import Change, compare, comparison_document, comparison_text, judge
from leakmeter.report.html import document_html
from leakmeter.results import AuditResult


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((0.1, 0.2), (0.3, 0.4), "up"),
        ((0.3, 0.4), (0.1, 0.2), "down"),
        ((0.1, 0.3), (0.2, 0.4), "unclear"),
        ((0.1, 0.2), (0.2, 0.3), "unclear"),
        ((0.1, 0.2), (0.1, 0.2), "same"),
    ],
)
def test_only_intervals_apart_are_a_change(before, after, expected):
    assert judge(before, after) == expected


def first_arm(found) -> list[Change]:
    return next(iter(found.arms.values()))


def weaker(result: AuditResult, by: float) -> AuditResult:
    arms = [
        arm.model_copy(
            update={
                "curve": [(q, *(max(0, value - by) for value in rest)) for q, *rest in arm.curve],
                "copies": [[max(0, rate - by) for rate in rates] for rates in arm.copies],
            }
        )
        for arm in result.verdict.arms
    ]
    return result.model_copy(update={"verdict": result.verdict.model_copy(update={"arms": arms})})


def test_each_arm_is_judged(make_audit):
    before = make_audit()
    for by, expected in ((0.2, "leaks less"), (0.001, "no clear change"), (0.0, "the same")):
        changes = [changes[0] for changes in compare(before, weaker(before, by)).arms.values()]
        assert len(changes) == 6
        assert {change.judgement for change in changes} == {expected}
    assert first_arm(compare(weaker(before, 0.2), before))[0].judgement == "leaks more"


def test_copies_of_different_price_are_compared_at_the_same_price(make_audit):
    change = first_arm(compare(make_audit(), make_audit(budget=16_000)))[0]
    assert change.what == "fidelity at 8,000 queries"
    apart = first_arm(compare(make_audit(), make_audit(budget=9_999)))[0]
    assert apart.judgement.startswith("not comparable")


def test_a_cost_that_was_not_reached_is_above_what_was_spent(make_audit):
    cheap, dear = make_audit(views=("logits",)), weaker(make_audit(views=("logits",)), 0.0)
    arms = [
        arm.model_copy(
            update={
                "costs": [
                    cost.model_copy(update={"queries": None, "made": None, "made_low": arm.queries + 1})
                    for cost in arm.costs
                ]
            }
        )
        for arm in dear.verdict.arms
    ]
    dear = dear.model_copy(update={"verdict": dear.verdict.model_copy(update={"arms": arms})})
    costs = [change for change in first_arm(compare(cheap, dear)) if change.what == "queries to 80%"]
    assert [change.judgement for change in costs] == ["costs more"]


def test_arms_and_plans_that_differ_are_listed(make_audit):
    found = compare(make_audit(attacks=2), make_audit(attacks=3, budget=4000, views=("labels",)))
    assert "budget was 8000 and is now 4000" in found.plan
    assert found.apart == [
        "only before: procedural, showing probs",
        "only before: dfme, showing probs (control)",
        "only after: surrogate (gaussian), showing labels (control)",
    ]
    text = comparison_text(found)
    assert "plan: budget was 8000 and is now 4000" in text
    assert "only before: dfme, showing probs" in text


def test_the_page_escapes_and_loads_nothing(make_audit):
    evil = "<script>alert(1)</script>"
    html = document_html(comparison_document(compare(make_audit(), make_audit(victim=evil, name=evil))))
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert "default-src 'none'" in html


def judgements(found) -> set[str]:
    return {change.judgement for changes in found.arms.values() for change in changes}


def test_a_change_of_the_box_is_no_change_of_the_model(make_audit):
    before = make_audit()
    after = weaker(make_audit(), 0.2)
    after.plan["victim"] = after.plan["victim"] | {"low": -5.0}
    found = compare(before, after)
    assert judgements(found) == {"undecided"}
    assert "different inputs: victim.low was None and is now -5.0" in comparison_text(found)


def test_an_audit_that_cannot_be_believed_decides_nothing(make_audit):
    before = make_audit()
    checks = [check.model_copy(update={"ok": False, "message": "all zero"}) for check in before.verdict.checks[:1]]
    weak = weaker(before, 0.2)
    after = weak.model_copy(update={"verdict": weak.verdict.model_copy(update={"checks": checks})})
    found = compare(before, after)
    assert judgements(found) == {"undecided"}
    assert f"the audit after fails its check “{checks[0].name}”: all zero" in comparison_text(found)
    assert "all zero" in document_html(comparison_document(found))


def test_another_model_is_what_one_compares(make_audit):
    before = make_audit()
    found = compare(before, weaker(make_audit(victim="shop.models:next_net"), 0.2))
    assert judgements(found) >= {"leaks less"}
    assert found.doubts == []


def test_the_command_writes_a_page_too(make_audit, tmp_path):
    for name in ("before", "after"):
        (tmp_path / f"{name}.json").write_text(make_audit(name=name).model_dump_json())
    asked = ["compare", str(tmp_path / "before.json"), str(tmp_path / "after.json"), "--html", str(tmp_path / "c.html")]
    ended = CliRunner().invoke(app, asked)
    assert ended.exit_code == 0, ended.output
    assert "The two verdicts" in (tmp_path / "c.html").read_text()
