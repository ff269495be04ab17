"""Which attacks a plan that names none gets: those that make something of what is shown."""

from __future__ import annotations

import pytest
from torch import nn

from leakmeter._audit.defaults import complete
from leakmeter._audit.estimate import estimate
from leakmeter.data.catalogue import load
from leakmeter.errors import UsageError
from leakmeter.plan import Plan, make_plan
from leakmeter.victims.load import load_victim


def names(views: list[str], features: int = 16, outputs: int = 4, **spec: str) -> list[str]:
    net = nn.Sequential(nn.Linear(features, 8), nn.ReLU(), nn.Linear(8, outputs))
    victim = load_victim(net, input_shape=(features,), low=0.0, high=1.0, **spec)
    plan = make_plan({"victim": {"source": "a:b"}, "views": views})
    return [attack.name for attack in complete(plan, victim, None).attacks]


@pytest.mark.parametrize(
    ("views", "features", "reads"),
    [
        (["labels"], 16, set()),
        (["probs:2"], 16, set()),
        (["probs"], 16, {"exact-values"}),
        (["probs"], 200, set()),
        (["probs", "probs+gradient"], 16, {"exact-values", "gradients", "exact"}),
        (["labels", "logits+gradient"], 200, {"gradients", "exact"}),
    ],
)
def test_what_is_shown_decides_who_attacks(views: list[str], features: int, reads: set[str]) -> None:
    found = names(views, features)
    assert {"procedural", "surrogate"} <= {*found} or "auto" in found
    assert {*found} & {"exact-values", "gradients", "exact"} == reads


def digits(**keys: object) -> Plan:
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    victim = load_victim(net, input_shape=(1, 8, 8), low=0.0, high=1.0, outputs="logits")
    keys = {"pace": 1.0, **keys}  # of a machine that is as fast as reckoned
    plan = make_plan({"victim": {"source": "a:b"}, "data": {"name": "digits"}, **keys})
    return complete(plan, victim, load("digits", "test"))


def learning(plan: Plan) -> float:
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    victim = load_victim(net, input_shape=(1, 8, 8), low=0.0, high=1.0, outputs="logits")
    return estimate(plan, victim, None, 2).learning


def test_a_plan_without_attacks_fits_into_some_minutes_of_two_cores() -> None:
    plan = digits()
    assert 60 <= learning(plan) / 2 <= 4 * 60
    assert {attack.options["effort"] for attack in plan.attacks if attack.name == "auto"} != {1.0}


@pytest.mark.parametrize("minutes", [3, 4, 10])
def test_minutes_set_the_effort(minutes: float) -> None:
    """As much as fits: with more effort all ways to learn are tried at once, so time may jump over the limit."""
    plan = digits(minutes=minutes)
    assert learning(plan) <= 2 * 60 * minutes * 1.05
    assert learning(_with_effort(plan, 0.02)) > 2 * 60 * minutes * 0.95


def _with_effort(plan: Plan, more: float) -> Plan:
    """The plan with more effort of all attacks that have any."""
    raised = (
        attack.model_copy(update={"effort": attack.options["effort"] + more}) if "effort" in attack.options else attack
        for attack in plan.attacks
    )
    return plan.model_copy(update={"attacks": tuple(raised)})


def test_a_slower_machine_gets_less_effort_for_the_same_minutes() -> None:
    quick, slow = (digits(minutes=8, pace=pace).attacks[0].options["effort"] for pace in (1.0, 4.0))
    assert slow < quick / 2
    assert digits(minutes=1, pace=None).pace is not None  # measured, and kept with the run


def test_an_effort_that_was_given_stays_and_attacks_that_were_given_take_their_time() -> None:
    given = digits(attacks=[{"name": "auto", "effort": 0.7}, {"name": "auto"}], minutes=1)
    assert given.attacks[0].options == {"effort": 0.7}
    assert given.attacks[1].options["effort"] < 0.7
    assert digits(attacks=[{"name": "auto"}]).attacks[0].options == {}


def test_a_quick_plan_has_one_seed_few_stops_and_no_transfer_unless_it_says_otherwise() -> None:
    plan = digits(quick=True)
    assert (plan.seeds, plan.ladder(), plan.transfer) == ((0,), (1, 625, 5000), None)
    assert learning(plan) / 2 <= 60
    assert digits(quick=True, seeds=[3, 4]).seeds == (3, 4)


def test_the_control_is_the_same_attacker_with_real_inputs_and_nothing_else() -> None:
    (control,) = (attack for attack in digits().attacks if attack.control)
    assert (control.name, control.options["pool"], control.options["sources"]) == ("auto", "digits", ())


def test_what_asks_points_between_rows_is_no_attack_on_a_table() -> None:
    columns = {"a": {"kind": "integer", "low": 0, "high": 9}, "b": {"kind": "numeric", "low": 0, "high": 1}}
    plan = make_plan({"victim": {"source": "a:b"}, "views": ["probs"]})
    net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
    found = complete(plan, load_victim(net, columns=columns), None).attacks
    assert {attack.name for attack in found} == {"auto", "plain", "exact-tree"}
    columns["a"]["kind"] = "numeric"
    found = complete(plan, load_victim(net, columns=columns), None).attacks
    assert {attack.name for attack in found} == {"auto", "plain", "exact-tree", "exact-values"}


def test_a_pool_is_one_more_arm_of_a_plan_without_attacks() -> None:
    without, given = digits(), digits(pool="rows.npz")
    asked = [attack for attack in given.attacks if attack.options.get("pool") == "rows.npz"]
    assert len(given.attacks) == len(without.attacks) + 1
    assert [attack.name for attack in asked] == ["auto"]
    assert not asked[0].control
    with pytest.raises(UsageError, match="give pool to the attack"):
        digits(pool="rows.npz", attacks=[{"name": "auto"}])


def test_a_control_is_measured_once_and_at_the_budget_only() -> None:
    cells = list(digits().cells())
    assert {cell.seed for cell in cells if cell.control} == {0}
    assert {cell.stops for cell in cells if cell.control} == {(5000,)}
    assert {cell.stops for cell in cells if not cell.control} == {(1, 8, 64, 555, 1666, 5000)}
