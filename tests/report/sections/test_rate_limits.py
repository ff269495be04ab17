import pytest

from leakmeter.report.sections.rate_limits import limit_advice


def test_rates_follow_from_the_cheapest_attack(make_audit):
    result = make_audit(views=("logits",), queries_per_day=500, prices={"query": 0.01})
    cheapest = min(
        (cost.queries, arm.label)
        for arm in result.verdict.arms
        for cost in arm.costs
        if not arm.control and cost.fidelity == 0.8 and cost.queries
    )
    rate = limit_advice(result)[0]
    assert (rate.queries, rate.label, rate.fidelity) == (*cheapest, 0.8)
    assert rate.days == rate.queries / 500
    assert rate.monthly == rate.queries // 30
    assert rate.money == pytest.approx(rate.queries / 100)


def test_controls_are_never_the_cheapest_attack(make_audit):
    result = make_audit(views=("logits",))
    arms = [arm.model_copy(update={"control": True}) for arm in result.verdict.arms]
    result = result.model_copy(update={"verdict": result.verdict.model_copy(update={"arms": arms})})
    assert limit_advice(result) == []
