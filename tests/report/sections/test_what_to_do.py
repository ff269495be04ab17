"""The advice: only what was measured, and only where the intervals say so."""

from leakmeter.extraction.certificate import CopyCertificate
from leakmeter.extraction.findings import Findings
from leakmeter.plan import Plan
from leakmeter.report.blocks import Paragraph, Steps
from leakmeter.report.sections.what_to_do import section
from leakmeter.results import AuditResult
from leakmeter.verdict import judge


def steps(result: AuditResult) -> list[str]:
    return ["".join(str(part) for part in item) for item in section(result, None).blocks[0].items]


def notes(result: AuditResult) -> str:
    return " ".join(
        str(part) for block in section(result, None).blocks if isinstance(block, Paragraph) for part in block.parts
    )


def with_arms(result: AuditResult, change) -> AuditResult:
    arms = [arm.model_copy(update=change(arm)) for arm in result.verdict.arms]
    return result.model_copy(update={"verdict": result.verdict.model_copy(update={"arms": arms})})


def cheapest(result: AuditResult, fidelity: float) -> tuple[int, int]:
    """Queries with which a copy was made, and with which no try had one."""
    costs = [cost for arm in result.verdict.arms for cost in arm.costs if cost.fidelity == fidelity and not arm.control]
    return min((cost.made, cost.short) for cost in costs if cost.made)


def test_a_limit_follows_from_the_cheapest_good_copy(make_audit):
    result = make_audit(views=("logits",), queries_per_day=500)
    made, short = cheapest(result, 0.8)
    (limit, again) = steps(result)
    assert limit.startswith(f"Allow one client at most {short // 30} queries a day.")
    told = f"an 80% copy (procedural, seeing logits) takes a month or more, as no try had one after {short:,} queries, "
    assert told + f"instead of {round(made / 500)} days at most" in limit
    assert "Honest clients who ask more have to wait" in limit
    assert again.startswith("Audit again")


def test_no_limit_is_made_up_where_the_first_copy_was_good_enough_already(make_audit):
    """An audit whose first stop already has the copy does not know what fewer queries buy."""

    def at_once(arm):
        costs = [cost.model_copy(update={"made": 250, "made_low": 1, "below": 0}) for cost in arm.costs]
        return {"costs": costs}

    limit = steps(with_arms(make_audit(views=("logits",)), at_once))[0]
    assert limit.startswith("Do not count on a rate limit. A 90% copy (procedural, seeing logits) costs at most 250 ")
    assert "250 queries, the fewest that were tried; no limit that" in limit
    assert "1 query a day" not in limit


def test_where_no_copy_was_made_no_limit_follows(make_audit):
    limit = steps(make_audit(views=("labels",)))[0]
    assert limit == (
        "Keep the rate limit you have. No attack made a copy of even 80% within 8,000 queries, so no other follows."
    )


def test_a_copy_that_may_be_good_enough_is_no_reason_to_keep_a_limit(make_audit):
    """83.8 % of 359 inputs once read as no copy of even 80 %."""

    def unsure(arm):
        return {"copies": [*arm.copies[:-1], (0.838,) * len(arm.copies[-1])]}

    limit = steps(with_arms(make_audit(views=("labels",)), unsure))[0]
    assert limit.startswith("Do not lean on the rate limit you have. One copy within 8,000 queries agrees on 83.8% of")


def test_a_limit_that_is_low_enough_stays(make_audit):
    assert steps(make_audit(views=("logits",), queries_per_day=5))[0].startswith(
        "Keep the rate limit you have. At 5 queries a day an 80% copy takes "
    )


def test_showing_less_is_advised_by_how_much_it_helps(make_audit):
    told = next(step for step in steps(make_audit()) if step.startswith("Show labels instead of probs."))
    probs, labels = (
        max(max(arm.copies[-1]) for arm in make_audit().verdict.arms if arm.view == view and not arm.control)
        for view in ("probs", "labels")
    )
    assert f"falls by {(probs - labels) * 100:.1f} points, from {probs:.1%} to {labels:.1%} (" in told
    assert "users see less" in told


def test_what_has_no_clear_gain_is_said_and_not_advised(make_audit):
    """Ten test inputs cannot tell one from the other."""
    result = with_arms(make_audit(), lambda arm: {"inputs": 10})
    assert not [step for step in steps(result) if step.startswith("Show labels")]
    assert "Tried, without a clear gain:  labels, " in notes(result)


def test_a_defense_is_advised_with_its_cost(full_audit):
    told = [step for step in steps(full_audit) if step.startswith("Put rounding:1 before the model.")]
    assert len(told) == 1
    assert "Honest users pay 0.1% accuracy and 3.0% of probability moved." in told[0]
    assert "Attackers did not know of it: rounding:1/adaptive measures those who do." in told[0]


def test_a_defense_that_leaves_the_labels_bare_is_not_advised(make_audit):
    """Behind it probabilities are worthless, and the labels leak as before."""
    audit = make_audit(defenses=("none", "rounding:1"))
    bare = {(arm.label, arm.view): arm for arm in audit.verdict.arms if arm.defense == "none"}

    def change(arm):
        if arm.defense == "none":
            return {}
        if arm.view == "probs":
            return {"copies": [[0.1] * 3 for _ in arm.copies]}
        return {"copies": bare[arm.label, "probs"].copies}

    result = with_arms(audit, change)
    assert not [step for step in steps(result) if step.startswith("Put ")]
    assert "probs behind rounding:1, " in notes(result)


def test_what_the_policy_would_say_is_said(make_audit):
    lax = make_audit(policy={"max_fidelity": {"queries": 8000, "value": 0.9}})
    assert "The policy then holds." in next(step for step in steps(lax) if step.startswith("Show labels"))
    near = make_audit(policy={"max_fidelity": {"queries": 8000, "value": 0.6}})
    assert "then holds is open." in next(step for step in steps(near) if step.startswith("Show labels"))
    hopeless = make_audit(policy={"max_fidelity": {"queries": 8000, "value": 0.3}})
    assert "The policy stays exceeded." in next(step for step in steps(hopeless) if step.startswith("Show labels"))


def test_the_leak_in_money(make_audit):
    result = make_audit(views=("logits",), prices={"query": 0.01, "currency": "EUR"})
    made, _ = cheapest(result, 0.8)
    assert f"at 0.01 EUR a query an 80% copy costs {made / 100:.2f} EUR." in notes(result)
    assert "10.00 EUR not billed" in notes(result)
    assert "money" not in notes(make_audit(views=("logits",)))


def test_an_audit_that_cannot_be_believed_is_mended_first(make_audit):
    result = make_audit()
    checks = [check.model_copy(update={"ok": False, "message": "34 inputs"}) for check in result.verdict.checks[:1]]
    result = result.model_copy(update={"verdict": result.verdict.model_copy(update={"checks": checks})})
    assert steps(result)[0].startswith(f"Mend the audit first. The check “{checks[0].name}” fails: 34 inputs.")


def test_attacks_that_failed_are_no_reason_to_keep_anything(make_audit):
    result = make_audit(views=("labels",))
    checks = [check.model_copy(update={"ok": False}) for check in result.verdict.checks[:1]]
    result = result.model_copy(update={"verdict": result.verdict.model_copy(update={"checks": checks})})
    assert [step.split(".")[0] for step in steps(result)][:1] == ["Mend the audit first"]
    assert not [step for step in steps(result) if step.startswith("Keep")]
    assert "Tried" not in notes(result)


def test_a_detector_is_advised_only_where_it_sees_all_and_errs_never(make_audit):
    def audit(**note):
        return make_audit(notes={"detector": {"detector": "prada", "fired_at": 420, "queries": 8000} | note})

    assert any(step.startswith("Watch the log with prada.") for step in steps(audit()))
    assert not any(step.startswith("Watch") for step in steps(audit(benign=3)))
    assert not any(step.startswith("Watch") for step in steps(audit(fired_at=None)))


def test_a_model_that_can_be_read_off_needs_another_view(make_audit):
    audit = make_audit(attacks=1, views=("logits",), seeds=1)
    certificate = CopyCertificate(
        points=100, outputs="logits", max_error=1e-9, relative_error=1e-9, bits=30.0, exact=True
    )
    found = Findings(class_entropy=None, complete=True, certificate=certificate)
    cells = [cell.model_copy(update={"findings": found, "attack": "exact", "curve": []}) for cell in audit.cells]
    bare = audit.verdict.model_copy(update={"arms": []})
    told = steps(audit.model_copy(update={"cells": cells, "verdict": bare}))
    assert told[0].startswith("Stop showing logits. exact read the model itself off 8,000 of such answers")
    assert "the model itself (exact, seeing logits) takes a month" in told[1]


def test_nothing_measured_still_says_what_to_do(make_audit):
    audit = make_audit()
    told = steps(audit.model_copy(update={"verdict": audit.verdict.model_copy(update={"arms": []})}))
    assert [step[:11] for step in told] == ["Audit again"]
    assert isinstance(section(audit, None).blocks[0], Steps)


LINE = {"max_fidelity": {"queries": 8000, "value": 0.8}}


def paid(result: AuditResult, costs: dict[str, tuple[float, float]]) -> AuditResult:
    """The same audit, judged with what each defense costs honest users."""
    cells = [
        cell.model_copy(
            update={"notes": {"utility": dict(zip(("accuracy_loss", "distortion"), costs[cell.defense], strict=True))}}
        )
        for cell in result.cells
    ]
    verdict = judge(Plan.model_validate(result.plan | {"victim": {"source": "a:b"}}), cells)
    return result.model_copy(update={"cells": cells, "verdict": verdict})


def test_the_cheapest_that_makes_the_policy_hold_is_named(make_audit):
    audit = make_audit(views=("probs",), defenses=("none", "noise:0.2", "rounding:1"), policy=LINE, seeds=6)
    told = steps(paid(audit, {"none": (0, 0), "noise:0.2": (0.0, 0.1), "rounding:1": (0.01, 0.02)}))
    step = next(step for step in told if step.startswith("Cheapest that makes the policy hold: "))
    assert step.startswith("Cheapest that makes the policy hold: showing probs, at most ")
    other = next(step for step in told if step.startswith("Or, without a limit: "))
    assert "showing probs behind noise:0.2." in other
    assert "Honest users pay 0.0% accuracy and 10.0% of probability moved" in other
    assert "That is not sure yet: " in other
    assert "Attackers did not know of it: try noise:0.2/adaptive too." in other


def test_what_few_seeds_leave_open_is_not_called_sure(make_audit):
    told = steps(make_audit(views=("probs",), defenses=("none", "noise:0.2"), policy=LINE))
    step = next(step for step in told if step.startswith("Cheapest that may make the policy hold: "))
    assert "That is not sure yet: procedural under probs" in step
    assert "over 3 seeds, which cannot exclude up to" in step


def test_what_costs_more_than_is_allowed_is_not_recommended(make_audit):
    bounds = {"accuracy_loss": 0.005, "distortion": 0.05, "queries": 8000}
    audit = make_audit(
        views=("probs",), defenses=("none", "noise:0.2", "rounding:1"), policy=LINE, honest=bounds, seeds=6
    )
    told = steps(paid(audit, {"none": (0, 0), "noise:0.2": (0.0, 0.1), "rounding:1": (0.01, 0.02)}))
    step = next(step for step in told if "makes the policy hold" in step)
    assert step.startswith(
        "None of the 3 ways to show answers that were tried makes the policy hold at the cost allowed."
    )
    assert "The cheapest that does is showing probs, at most" in step


def test_a_policy_that_nothing_meets_has_no_remedy(make_audit):
    hopeless = {"max_fidelity": {"queries": 8000, "value": 0.12}}
    told = steps(make_audit(views=("probs",), defenses=("none", "noise:0.2"), policy=hopeless))
    assert any(
        step.startswith("None of the 2 ways to show answers that were tried makes the policy hold.") for step in told
    )


def test_a_policy_that_holds_needs_no_remedy(make_audit):
    lax = {"max_fidelity": {"queries": 8000, "value": 0.999}}
    assert not [step for step in steps(make_audit(policy=lax)) if "policy hold" in step]


def test_a_defense_dearer_than_is_allowed_is_not_advised_though_it_helps(make_audit):
    audit = make_audit(views=("probs",), defenses=("none", "noise:0.2"), policy=LINE, honest={"accuracy_loss": 0.005})
    result = paid(audit, {"none": (0, 0), "noise:0.2": (0.3, 0.1)})
    assert any(step.startswith("Put noise:0.2") for step in steps(paid(audit, {"none": (0, 0), "noise:0.2": (0, 1)})))
    assert not [step for step in steps(result) if step.startswith("Put noise:0.2")]
    assert "allows:  noise:0.2. The best copy falls by " in notes(result)
    assert "Honest users pay 30.0% accuracy" in notes(result)


def test_that_nothing_holds_is_said_also_where_some_attack_failed(make_audit):
    """A defense behind which a naive attack learns nothing must not silence the answer that the owner asked for."""
    bounds = {"accuracy_loss": 0.005, "distortion": 0.05, "queries": 8000}
    audit = make_audit(views=("probs",), defenses=("none", "noise:0.2"), policy=LINE, honest=bounds, seeds=6)
    result = paid(audit, {"none": (0, 0), "noise:0.2": (0.0, 0.1)})
    checks = [check.model_copy(update={"ok": False}) for check in result.verdict.checks[:1]]
    result = result.model_copy(update={"verdict": result.verdict.model_copy(update={"checks": checks})})
    told = [step for step in steps(result) if "makes the policy hold" in step]
    assert told == ["None of the 2 ways to show answers that were tried makes the policy hold at the cost allowed."]
