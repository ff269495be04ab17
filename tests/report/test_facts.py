import pytest

from leakmeter.evaluation.intervals import attack_mean
from leakmeter.evaluation.tries import share_of_tries
from leakmeter.report import facts
from leakmeter.report.words import cost_line, days, duration, fired, short
from leakmeter.results import CopyCost


def test_rates_follow_from_the_cheapest_attack(make_audit):
    result = make_audit(views=("logits",), queries_per_day=500, prices={"query": 0.01})
    cheapest = min(
        (cost.queries, arm.label)
        for arm in result.verdict.arms
        for cost in arm.costs
        if not arm.control and cost.fidelity == 0.8 and cost.queries
    )
    rate = facts.rates(result)[0]
    assert (rate.queries, rate.label, rate.fidelity) == (*cheapest, 0.8)
    assert rate.days == rate.queries / 500
    assert rate.monthly == rate.queries // 30
    assert rate.money == pytest.approx(rate.queries / 100)


def test_controls_are_never_the_cheapest_attack(make_audit):
    result = make_audit(views=("logits",))
    arms = [arm.model_copy(update={"control": True}) for arm in result.verdict.arms]
    result = result.model_copy(update={"verdict": result.verdict.model_copy(update={"arms": arms})})
    assert facts.rates(result) == []


def test_a_defense_is_compared_under_its_own_view(full_audit):
    rows = {(row.defense, row.view): row for row in facts.defense_rows(full_audit)}
    bare, rounded = rows["none", "labels"], rows["rounding:1", "labels"]
    assert rounded.gain == pytest.approx(bare.fidelity - rounded.fidelity)
    assert rounded.gain > 0
    assert (rounded.accuracy_loss, rounded.distortion) == (0.001, 0.03)


def test_without_a_defense_there_is_nothing_to_compare(make_audit):
    assert facts.defense_rows(make_audit()) == []


def test_the_ledger_adds_up(full_audit):
    bills = facts.bills(full_audit)
    assert sum(bill.total("queries") for bill in bills) == sum(cell.spending.queries for cell in full_audit.cells)
    assert {bill.runs for bill in bills} == {3}


def test_transfer_is_averaged_over_seeds(make_audit, thief):
    result = make_audit(attacks=1, views=("probs",), seeds=3)
    values = [0.2, 0.4, 0.6]
    cells = [
        cell.model_copy(update={"transfer": thief(value)}) for cell, value in zip(result.cells, values, strict=True)
    ]
    (row,) = facts.transfers(result.model_copy(update={"cells": cells}))
    assert row.success == pytest.approx(0.4)
    ends = attack_mean([0.2, 0.4, 0.6], 100)
    assert (row.low, row.high) == pytest.approx((ends.low, ends.high))


def test_one_seed_is_not_read_as_the_attack(make_audit, thief):
    (cell,) = make_audit(attacks=1, views=("probs",), seeds=1).cells
    audit = make_audit(attacks=1, views=("probs",), seeds=1)
    (row,) = facts.transfers(audit.model_copy(update={"cells": [cell.model_copy(update={"transfer": thief(0.61)})]}))
    assert row.low < 0.02
    assert row.high > 0.98


def test_a_detector_that_never_fired_says_so(make_audit):
    result = make_audit(attacks=1, views=("probs",), seeds=3)
    moments = [None, 300, 1200]
    cells = [
        cell.model_copy(update={"notes": {"detector": {"detector": "PRADA", "fired_at": at, "queries": 8000}}})
        for cell, at in zip(result.cells, moments, strict=True)
    ]
    (row,) = facts.detections(result.model_copy(update={"cells": cells}))
    assert fired(row) == "300 to 1,200 of 8,000, never in 1 of 3 runs"


def test_a_cost_claims_no_more_than_the_curve_shows(make_audit):
    arm = make_audit(attacks=1, views=("probs",)).verdict.arms[0]

    def line(made_low, made, rates):
        tries = share_of_tries(rates, 1000, 0.9)
        cost = CopyCost(fidelity=0.9, queries=None, low=1, high=None, made_low=made_low, made=made, tries=tries)
        return cost_line(arm, cost)

    assert line(8001, None, [0.3, 0.4]) == "not within 8,000 (0 of 2 tries)"
    assert line(1, 250, [0.95, 0.4]) == "1 to 250 (1 of 2 tries)"
    assert line(1, 1, [0.95]) == "1 (1 of 1 tries)"
    assert line(2001, 4000, [0.95, 0.95, 0.97]) == "2,001 to 4,000 (3 of 3 tries)"


def test_results_of_before_costs_were_bracketed_are_still_shown(make_audit):
    arm = make_audit(attacks=1, views=("probs",)).verdict.arms[0]
    assert cost_line(arm, CopyCost(fidelity=0.9, queries=None, low=None, high=None)) == "not within 8,000"
    assert cost_line(arm, CopyCost(fidelity=0.9, queries=250, low=100, high=None)) == "about 250"


def test_numbers_in_words():
    assert [short(value) for value in (7, 250, 1000, 2500, 1_500_000)] == ["7", "250", "1k", "2.5k", "1.5M"]
    assert [duration(value) for value in (3.21, 91, 7300)] == ["3.2 s", "1 min 31 s", "2 h 1 min"]
    assert [days(value) for value in (0.2, 1.1, 29.7)] == ["less than a day", "1 day", "30 days"]
