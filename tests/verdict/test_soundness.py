"""Every check under "Can this audit be believed?": one cell that must fail it, and one that must pass."""

from __future__ import annotations

from typing import Any

import pytest

from leakmeter.evaluation.by_class import ByClass
from leakmeter.evaluation.intervals import exact
from leakmeter.evaluation.score import ClassScore, Score
from leakmeter.evaluation.transfer import FlipRate, Transfer
from leakmeter.extraction.base import CurvePoint
from leakmeter.extraction.certificate import CopyCertificate
from leakmeter.extraction.findings import COLLAPSED, Findings
from leakmeter.results import CellResult, Spending
from leakmeter.verdict.findings import WHOLE
from leakmeter.verdict.soundness import FEW_POINTS, SATURATED, soundness


def score(fidelity: float, n: int = 1000, **beside: Any) -> Score:
    same = round(fidelity * n)
    facts = {"balanced": 0.9, "worst": 0.8, "worst_class": 0, "worst_n": 100, "unnamed": 0, "constant": 0.3} | beside
    return Score(
        n=n,
        fidelity=same / n,
        fidelity_interval=exact(same, n),
        accuracy=None,
        accuracy_interval=None,
        victim_accuracy=None,
        kl=None,
        max_error=None,
        by_class=ByClass(**facts),
    )


def cell(final: Score | None = None, **more: Any) -> CellResult:
    facts = {
        "id": "it",
        "attack": "surrogate",
        "view": "probs",
        "seed": 0,
        "budget": 100,
        "status": "done",
        "curve": [CurvePoint(queries=100, score=final or score(0.8))],
        "untrained": score(0.2),
        "repeatable": True,
        "saturated": 0.0,
        "findings": Findings(class_entropy=0.9),
        "spending": Spending(queries=100),
    }
    return CellResult(**(facts | more))


def transfer(copy: int, white: int) -> Transfer:
    def rate(k: int) -> FlipRate:
        return FlipRate(value=k / 100, n=100, interval=exact(k, 100))

    return Transfer(
        attack="pgd",
        norm="linf",
        eps=0.1,
        targeted=False,
        copy_rate=rate(copy),
        noise_rate=rate(1),
        untrained_rate=None,
        white_box_rate=rate(white),
    )


def claimed(*, exactly: bool) -> Findings:
    certificate = CopyCertificate(
        points=1000, outputs="logits", max_error=0.0, relative_error=0.0, bits=None, exact=exactly
    )
    return Findings(class_entropy=0.9, complete=True, certificate=certificate)


NEXT_TO = {
    "all cells finished": (cell(status="failed", error="no answer"), cell(status="skipped", error="no gradient")),
    "enough test points": (cell(score(0.8, FEW_POINTS - 1)), cell(score(0.8, FEW_POINTS))),
    "budget spent": (cell(spending=Spending(queries=99)), cell(spending=Spending(queries=100))),
    "victim repeatable": (cell(repeatable=False), cell(repeatable=None)),
    "answers informative": (cell(saturated=SATURATED + 0.01), cell(saturated=SATURATED)),
    "copies beat the control": (cell(score(0.22)), cell(score(0.3))),
    "queries diverse": (
        cell(findings=Findings(class_entropy=COLLAPSED - 0.01)),
        cell(findings=Findings(class_entropy=COLLAPSED)),
    ),
    "certificates true": (
        cell(score(WHOLE - 0.01), findings=claimed(exactly=True)),
        cell(score(WHOLE), findings=claimed(exactly=True)),
    ),
    "copies beat a constant": (
        cell(score(0.99, constant=0.99, unnamed=1)),
        cell(score(0.99, constant=0.98, unnamed=1)),
    ),
    "transfer measured": (cell(transfer_error="no gradient"), cell(transfer=transfer(30, 60))),
    "more shown, more leaked": (
        [cell(score(0.7)), cell(score(0.8), view="labels")],
        [cell(score(0.79)), cell(score(0.8), view="labels")],
    ),
    "white box strongest": (cell(transfer=transfer(90, 60)), cell(transfer=transfer(64, 60))),
}


def test_every_check_is_tried_on_both_sides() -> None:
    whole = soundness([cell(transfer=transfer(60, 90))])
    assert [check.name for check in whole] == list(NEXT_TO)
    assert all(check.ok for check in whole)


def test_a_white_box_that_was_not_measured_does_not_hold() -> None:
    assert [check.name for check in soundness([cell()])] == [name for name in NEXT_TO if name != "white box strongest"]


@pytest.mark.parametrize("name", NEXT_TO)
def test_a_check_fails_on_one_side_of_its_line_and_holds_on_the_other(name: str) -> None:
    bad, good = [[each] if isinstance(each, CellResult) else each for each in NEXT_TO[name]]
    (failed,) = (check for check in soundness(bad) if check.name == name)
    (held,) = (check for check in soundness(good) if check.name == name)
    assert not failed.ok
    assert held.ok
    assert failed.message != held.message
    by_surface = name in ("copies beat the control", "more shown, more leaked")
    assert "and 1 more" in next(check for check in soundness(bad + bad) if check.name == name).message or by_surface


def test_a_certificate_that_measures_otherwise_is_no_certificate() -> None:
    checks = {check.name: check.ok for check in soundness([cell(score(1.0), findings=claimed(exactly=False))])}
    assert not checks["certificates true"]


def test_whoever_holds_the_whole_model_need_not_spend_the_rest() -> None:
    early = {"spending": Spending(queries=10)}
    held = soundness([cell(score(1.0), findings=claimed(exactly=True), **early)])
    believed = soundness([cell(score(1.0), findings=claimed(exactly=False), **early)])
    assert [next(c.ok for c in checks if c.name == "budget spent") for checks in (held, believed)] == [True, False]


def test_whoever_asked_every_input_there_is_has_nothing_left_to_ask() -> None:
    """A table of a few levels has fewer rows than the budget: a total leak once read as inconclusive."""
    for all_asked in (True, False):
        findings = Findings(class_entropy=1.0, all_asked=all_asked)
        checks = soundness([cell(score(1.0), findings=findings, spending=Spending(queries=10))])
        assert next(check.ok for check in checks if check.name == "budget spent") is all_asked


def test_one_weak_attack_of_two_does_not_weaken_an_audit_but_a_weak_view_does() -> None:
    weak, strong = cell(score(0.22)), cell(score(0.8))

    def ok(cells: list[CellResult]) -> bool:
        return next(check.ok for check in soundness(cells) if check.name == "copies beat the control")

    assert ok([weak, strong])
    no_control = {"attack": "exact", "untrained": None}
    assert not ok([weak, cell(score(0.21), **no_control)])  # an attack without a control vouches for nobody
    assert ok([weak, cell(score(0.8), **no_control)])
    assert ok([cell(score(0.21), **no_control)])
    assert not ok([weak, strong.model_copy(update={"view": "labels"})])
    assert not ok([weak, strong.model_copy(update={"defense": "rounding:1"})])


def test_a_model_that_names_few_classes_is_no_collapse_of_whoever_asks_it() -> None:
    def diverse(entropy: float, counts: tuple[int, ...]) -> bool:
        scores = [ClassScore(n=n, same=0) for n in counts]
        asked = cell(findings=Findings(class_entropy=entropy), class_scores=scores)
        return next(check.ok for check in soundness([asked]) if check.name == "queries diverse")

    rare = (990, 10, 0, 0)  # 4 % of the highest entropy
    assert diverse(0.04, rare)
    assert diverse(0.0, (1000, 0, 0, 0))
    assert not diverse(0.005, rare)
    assert not diverse(0.04, (250, 250, 250, 250))
    assert diverse(0.3, (250, 250, 250, 250))


def test_an_attack_that_gave_up_on_one_class_is_no_fault_beside_one_that_went_on() -> None:
    def diverse(*findings: Findings) -> bool:
        scores = [ClassScore(n=250, same=0)] * 4
        cells = [cell(id=f"{k}", findings=each, class_scores=scores) for k, each in enumerate(findings)]
        return next(check.ok for check in soundness(cells) if check.name == "queries diverse")

    gave_up, collapsed = Findings(class_entropy=0.0, missing="no such network"), Findings(class_entropy=0.0)
    assert not diverse(gave_up)
    assert not diverse(collapsed, Findings(class_entropy=0.9))
    assert not diverse(gave_up, collapsed)
    assert diverse(gave_up, Findings(class_entropy=0.9))


def test_a_plain_attack_that_collapsed_is_no_fault_beside_a_better_one_that_did_not() -> None:
    def diverse(*found: tuple[float, float], view: str = "probs") -> bool:
        scores = [ClassScore(n=250, same=0)] * 4
        cells = [
            cell(score(fidelity), id=f"{k}", findings=Findings(class_entropy=entropy), class_scores=scores)
            for k, (entropy, fidelity) in enumerate(found)
        ]
        cells[0] = cells[0].model_copy(update={"view": view})
        return next(check.ok for check in soundness(cells) if check.name == "queries diverse")

    assert diverse((0.9, 0.9), (0.0, 0.2))
    assert not diverse((0.9, 0.2), (0.0, 0.9))  # then it is the one that speaks
    assert not diverse((0.0, 0.9), (0.0, 0.2))
    assert not diverse((0.9, 0.9), (0.0, 0.2), view="labels")  # another surface


def test_intervals_that_touch_do_not_tell_apart() -> None:
    def at(score: Score, low: float, high: float) -> Score:
        ends = score.fidelity_interval.model_copy(update={"low": low, "high": high})
        return score.model_copy(update={"fidelity_interval": ends})

    def ok(name: str, *cells: CellResult) -> bool:
        return next(check.ok for check in soundness(list(cells)) if check.name == name)

    for low, beaten in ((0.5, False), (0.5001, True)):
        touching = cell(at(score(0.6), low, 0.7), untrained=at(score(0.4), 0.3, 0.5))
        assert ok("copies beat the control", touching) is beaten
    for high, fine in ((0.5, True), (0.4999, False)):
        more, less = cell(at(score(0.4), 0.3, high)), cell(at(score(0.6), 0.5, 0.7), view="labels")
        assert ok("more shown, more leaked", more, less) is fine


def test_a_cell_that_measured_nothing_is_held_against_nothing() -> None:
    for curve in ([], [CurvePoint(queries=5, score=None)]):
        assert {check.name for check in soundness([cell(curve=curve)]) if not check.ok} == set()
    assert all(check.ok for check in soundness([cell(findings=None, untrained=None, transfer=None, spending=None)]))


def test_controls_are_not_held_against_an_audit() -> None:
    bad = cell(score(0.22), control=True, spending=Spending(queries=1), findings=Findings(class_entropy=0.0))
    assert all(check.ok for check in soundness([bad, cell()]))


@pytest.mark.parametrize(("others", "fine"), [([100], True), ([99], False), ([], False)])
def test_who_gives_up_and_says_why_leaves_the_budget_to_those_who_go_on(others: list[int], fine: bool) -> None:
    gave_up = cell(
        attack="exact-tree",
        spending=Spending(queries=40),
        findings=Findings(class_entropy=1.0, missing="the model is a sum of many trees"),
    )
    checks = soundness([gave_up, *(cell(spending=Spending(queries=n)) for n in others)])
    assert next(check.ok for check in checks if check.name == "budget spent") is fine


def test_an_attack_that_fails_beside_one_that_copies_is_no_fault_of_the_audit() -> None:
    poor, good = cell(score(0.3, constant=0.4, unnamed=2), id="poor"), cell(score(0.9, constant=0.4), id="good")
    alone, elsewhere = soundness([poor]), soundness([poor, good.model_copy(update={"view": "labels"})])
    (both,) = (check for check in soundness([poor, good]) if check.name == "copies beat a constant")
    assert both.ok
    for found in (alone, elsewhere):
        (check,) = (check for check in found if check.name == "copies beat a constant")
        assert not check.ok
