"""What an owner reads, word by word."""

from __future__ import annotations

from typing import Any

import pytest

from leakmeter.evaluation.by_class import ByClass
from leakmeter.evaluation.intervals import exact
from leakmeter.evaluation.score import Score
from leakmeter.evaluation.transfer import FlipRate, Transfer
from leakmeter.extraction.base import CurvePoint
from leakmeter.extraction.certificate import CopyCertificate
from leakmeter.extraction.findings import Findings, Trial
from leakmeter.plan import Plan, make_plan
from leakmeter.results import CellResult, Spending
from leakmeter.verdict import judge
from leakmeter.verdict.findings import explained

N = 1000


def score(fidelity: float, **beside: Any) -> Score:
    same = round(fidelity * N)
    facts = {"balanced": 0.9, "worst": 0.8, "worst_class": 0, "worst_n": 100, "unnamed": 0, "constant": 0.3} | beside
    return Score(
        n=N,
        fidelity=same / N,
        fidelity_interval=exact(same, N),
        accuracy=None,
        accuracy_interval=None,
        victim_accuracy=None,
        kl=None,
        max_error=None,
        by_class=ByClass(**facts),
    )


def cell(
    curve: dict[int, float], seed: int = 0, attack: str = "surrogate", view: str = "probs", **more: Any
) -> CellResult:
    beside = more.pop("beside", {})
    points = [CurvePoint(queries=queries, score=score(rate, **beside)) for queries, rate in curve.items()]
    facts = {"status": "done", "budget": max(curve), "spending": Spending(queries=max(curve))} | more
    return CellResult(id=f"{attack}-{view}-{seed}", attack=attack, view=view, seed=seed, curve=points, **facts)


def plan(**more: Any) -> Plan:
    return make_plan(
        {"victim": {"source": "a:b"}, "data": {"name": "digits"}, "attacks": [{"name": "surrogate"}], **more}
    )


def told(cells: list[CellResult], **more: Any) -> tuple[str, list[str]]:
    verdict = judge(plan(**more), cells)
    return verdict.headline, verdict.sentences


def test_the_headline_is_the_best_try_beside_the_mean_and_a_constant() -> None:
    headline, _ = told([cell({100: 0.5}, 0), cell({100: 0.7}, 1), cell({100: 0.2}, 0, "other")])
    assert headline == (
        "An outsider with 100 queries gets a copy that agrees with the model on 70.0% of inputs (surrogate, seeing "
        "probs; the best of 2 tries, 60.0% on average; always naming one class would agree on 30.0%)."
    )
    one, _ = told([cell({1: 0.5})])
    assert one.startswith("An outsider with 1 query gets a copy")
    assert "seeing probs; one try; always" in one
    assert told([]) == ("No attack was measured.", [])


def test_an_undefended_copy_is_told_before_a_defended_one_and_controls_never() -> None:
    cells = [cell({100: 0.5}), cell({100: 0.9}, defense="rounding:1"), cell({100: 0.99}, attack="real", control=True)]
    assert "on 50.0% of inputs (surrogate, seeing probs;" in told(cells)[0]
    assert "on 90.0% of inputs (surrogate, seeing probs, behind rounding:1;" in told(cells[1:])[0]


def test_costs_are_the_best_tries_and_lie_between_points() -> None:
    _, lines = told([cell({10: 0.5, 40: 0.95, 160: 0.97}, seed) for seed in range(3)])
    assert lines[0] == (
        "Showing probs, a 90% copy costs at most 40 queries, more than 10 (surrogate: 3 of 3 tries reach 90.0% "
        "(29% to 100% of all would))."
    )
    assert lines[1] == (
        "At 1,000 queries a day a 90% copy takes 1 day at most; no daily limit is known to make it cost a month."
    )
    _, slow = told([cell({3000: 0.5, 9000: 0.97}, seed) for seed in range(3)], queries_per_day=3000)
    assert "At 3,000 queries a day a 90% copy takes 3 days at most" in slow[1]
    assert "allow at most 100 queries a day" in slow[1]
    _, first = told([cell({1: 0.99})])
    assert "a 90% copy costs at most 1 query (surrogate: 1 of 1 try reaches 90.0%" in first[0]


def test_a_cost_is_bounded_below_only_where_something_was_tried_below() -> None:
    _, first = told([cell({100: 0.95, 400: 0.97}, seed) for seed in range(3)])
    assert "costs at most 100 queries (surrogate" in first[0]  # not "more than 0"
    _, second = told([cell({1: 0.2, 2: 0.95}, seed) for seed in range(3)])
    assert "costs at most 2 queries (surrogate" in second[0]  # not "at most 2, more than 1"
    _, third = told([cell({1: 0.2, 3: 0.95}, seed) for seed in range(3)])
    assert "costs at most 3 queries, more than 1 (surrogate" in third[0]


def test_an_attack_that_failed_on_an_explanation_is_not_called_not_run() -> None:
    failed = cell({8: 0.5}, 0, "gradients", "probs+gradient", status="failed", error="no answer")
    assert told([cell({8: 0.2}), failed])[1][-1] == (
        "The attack that reads gradient failed: what showing it gives away was not measured."
    )


def test_the_cheapest_attack_of_a_view_is_named() -> None:
    cells = [cell({10: 0.5, 100: 0.99}), cell({10: 0.99, 100: 0.99}, attack="exact"), cell({10: 0.2}, view="labels")]
    _, lines = told(cells)
    assert "costs at most 10 queries (exact" in lines[0]
    assert lines[1] == "Showing labels, no attack made a 90% copy within 10 queries in 1 try."


def test_a_copy_too_near_to_tell_is_said_to_be() -> None:
    _, lines = told([cell({100: 0.9})])
    assert lines[0] == (
        "Showing probs, surrogate made a copy that measures 90.0%, which 1,000 test inputs cannot tell from less than "
        "90%."
    )


def test_class_by_class_where_that_is_another_story() -> None:
    _, rare = told([cell({10: 0.5}, beside={"unnamed": 2, "balanced": 0.25, "worst": 0.0, "constant": 0.49})])
    assert rare[-1] == (
        "With every class counted once, the copies of surrogate agree on 25.0%, in the class they know least on 0.0%, "
        "and never name 2 classes that the model names; always naming one class agrees on 49.0% of inputs."
    )
    _, majority = told([cell({10: 0.5}, beside={"constant": 0.5})])
    assert "never name" not in majority[-1]
    assert majority[-1].startswith("With every class counted once")
    _, plain = told([cell({10: 0.5})])
    assert len(plain) == 1
    _, constant = told([cell({10: 1.0}, beside={"constant": 1.0})])
    assert any("costs no more than one query" in line for line in constant)


def test_an_exact_copy_comes_first_and_a_mistaken_one_does_not() -> None:
    certificate = CopyCertificate(points=7, outputs="logits", max_error=0.0, relative_error=1e-9, bits=None, exact=True)
    found = Findings(class_entropy=1.0, complete=True, certificate=certificate)
    headline, lines = told([cell({60: 1.0}, findings=found), cell({50: 0.5}, 1)])
    assert headline == "The model was copied exactly from 60 queries (surrogate, seeing probs)."
    assert lines[0].startswith("On 7 random inputs the outputs of that copy are off by at most 1e-09")
    assert "exactly" not in told([cell({60: 0.9}, findings=found)])[0]


@pytest.mark.parametrize(
    ("attack", "view", "tried", "reads"),
    [
        ("gradients", "probs+gradient", (), True),
        ("exact", "logits+gradient", (), True),
        ("exact", "logits", (), False),
        ("surrogate", "probs+gradient", (), False),
        ("surrogate", "probs+gradient", (("gradients mlp", True),), True),
        ("surrogate", "probs+gradient", (("gradients mlp", False),), False),
        ("somebody-elses", "probs+gradient", (), False),
        ("tabular", "probs+shap:5", (), True),
        ("tabular", "probs+gradient", (), False),
        ("tabular", "labels+shap:5", (), False),
        ("tabular", "probs+shap:5/top:3", (), False),
    ],
)
def test_who_reads_explanations(attack: str, view: str, tried: tuple[tuple[str, bool], ...], reads: bool) -> None:
    trials = tuple(Trial(name=name, held_out=0.5, chosen=chosen) for name, chosen in tried)
    findings = Findings(class_entropy=1.0, tried=trials)
    assert explained(cell({1: 0.5}, attack=attack, view=view, findings=findings)) is reads


def test_cheaper_is_said_of_readers_only() -> None:
    plain = [cell({8: 0.2, 64: 0.5, 512: 0.8}, seed) for seed in range(3)]
    blind = [cell({8: 0.9, 64: 0.9, 512: 0.9}, seed, view="probs+gradient") for seed in range(3)]
    readers = [cell({8: 0.5, 64: 0.8, 512: 0.9}, seed, "gradients", "probs+gradient") for seed in range(3)]
    assert told([*plain, *blind])[1][-1] == (
        "No attack that reads gradient was run: what showing it gives away was not measured."
    )
    line = told([*plain, *blind, *readers])[1][-1]
    assert line.startswith("Showing gradient makes the copy 7.6× cheaper than showing probs (3 pairs of runs")
    assert not any("cheaper" in line for line in told(readers)[1])
    assert not any("gradient" in line for line in told(plain)[1])


def test_whoever_sees_an_explanation_may_ignore_it() -> None:
    plain = [cell({8: 0.2, 64: 0.95}, seed) for seed in range(3)]
    weak = [cell({8: 0.1, 64: 0.3}, seed, "gradients", "probs+reasons:4") for seed in range(3)]
    strong = [cell({8: 0.92, 64: 0.97}, seed, "gradients", "probs+gradient") for seed in range(3)]
    lines = told([*plain, *weak, *strong])[1]
    assert "Showing reasons:4 made no copy cheaper than showing probs, as far as these stops tell." in lines
    assert any(line.startswith("Showing gradient makes a 90% copy at least 3× cheaper than") for line in lines)


def test_an_explanation_that_cannot_be_given_is_told_with_the_reason() -> None:
    why = "the explanation gradcam needs pictures, got inputs of (3,)"
    cells = [cell({8: 0.2}), cell({8: 0.2}, 0, "gradients", "probs+gradcam", status="skipped", error=why)]
    assert f"Showing gradcam was not measured: {why}." in told(cells)[1]


def test_the_strongest_thief_is_told_with_its_controls() -> None:
    def thief(copy: int) -> Transfer:
        def rate(k: int) -> FlipRate:
            return FlipRate(value=k / 100, n=100, interval=exact(k, 100))

        rates = {"copy_rate": rate(copy), "noise_rate": rate(3), "untrained_rate": None, "white_box_rate": rate(90)}
        return Transfer(attack="pgd", norm="linf", eps=0.1, targeted=False, **rates)

    cells = [cell({10: 0.5}, transfer=thief(20)), cell({10: 0.5}, view="labels", transfer=thief(60))]
    assert told(cells)[1][-1] == (
        "With such a copy (surrogate, seeing labels), 60.0% of correct inputs can be flipped at linf 0.1 (pgd), "
        "against 3.0% for random noise and 90.0% white-box."
    )


def test_attacks_that_failed_are_said_to_have_failed_and_what_to_do() -> None:
    headline, _ = told([cell({100: 0.12}, untrained=score(0.11))])
    assert headline.startswith("The attacks failed, which protects nothing: after")
    assert "Check the range (low, high) and shape of the inputs, raise the budget" in headline
    headline, _ = told([cell({100: 0.12}, untrained=score(0.11)), cell({100: 0.5}, 1, untrained=score(0.11))])
    assert headline.startswith("An outsider with")


def test_copies_that_need_no_more_than_the_first_stop_are_not_passed_over_in_silence() -> None:
    plain = [cell({8: 0.95, 64: 0.95}, seed) for seed in range(3)]
    readers = [cell({8: 0.95, 64: 0.95}, seed, "gradients", "probs+gradient") for seed in range(3)]
    assert told([*plain, *readers])[1][-1] == (
        "What showing gradient costs is not known: the fewest that were tried, 8 queries, made the copy with it and "
        "without; audit with smaller stops."
    )
