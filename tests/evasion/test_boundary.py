from __future__ import annotations

import pytest
import torch
from torch import nn

from leakmeter.errors import UsageError
from leakmeter.evasion.base import evade
from leakmeter.oracle.oracle import Oracle
from leakmeter.victims.load import load_victim


def oracle(model: nn.Module, budget: int | None = None) -> Oracle:
    victim = load_victim(model, input_shape=(1, 8, 8), low=0.0, high=1.0, classes=10, outputs="logits")
    return Oracle(victim, view="labels", budget=budget)


def test_labels_alone_give_the_same_walk_as_the_module(trained, digits):
    x, y = digits[0][:10], digits[1][:10]
    door = oracle(trained)
    found = evade("boundary", door, x, y, steps=50)
    assert torch.equal(found.examples, evade("boundary", trained, x, y, steps=50).examples)
    assert found.success.all()
    assert found.queries == door.ledger.spent("attack")
    assert door.ledger.spent("evaluation") == len(x)  # the base's own measurement is not the attacker's


def test_every_row_is_counted(trained, digits):
    x, y = digits[0][:10], digits[1][:10]
    start, hundred = (evade("boundary", oracle(trained), x, y, steps=steps).queries for steps in (0, 100))
    assert hundred - start == 10 * (100 + 5)  # a step each, and one look in twenty at the sideways move alone


@pytest.mark.parametrize("budget", [0, 5, 100, 700])
def test_an_exhausted_budget_returns_what_was_found(trained, digits, budget):
    x, y = digits[0][:10], digits[1][:10]
    door = oracle(trained, budget=budget)
    found = evade("boundary", door, x, y, steps=5000)
    assert found.queries <= budget
    assert door.ledger.remaining == budget - found.queries
    assert found.success.all() == (budget >= 100)
    for won, reason in zip(found.success.tolist(), found.reasons, strict=True):
        assert won or "budget ran out" in str(reason)


def test_more_steps_come_nearer(trained, digits):
    x, y = digits[0][:20], digits[1][:20]
    medians = [evade("boundary", trained, x, y, steps=steps).distance.median() for steps in (0, 200, 1000)]
    assert medians[0] > 1.2 * medians[1] > 1.2 * medians[2]


def test_it_comes_as_near_as_gradients_do(trained, digits):
    x, y = digits[0][:20], digits[1][:20]
    with_gradients = evade("cw", trained, x, y, steps=200)
    by_labels = evade("boundary", trained, x, y, steps=3000)
    assert by_labels.distance.median() <= 1.1 * with_gradients.distance.median()


def test_targets_start_from_inputs_of_that_class(trained, digits):
    x, y = digits
    rows, pool = y != 3, x[y == 3][:5]
    found = evade("boundary", trained, x[rows][:10], y[rows][:10], target=3, starts=pool, steps=100)
    assert found.success.all()
    assert (trained(found.examples).argmax(1) == 3).all()


def test_without_a_starting_point_it_says_so(trained, digits):
    x, y = digits
    wrong = x[y == 1][:3]
    found = evade("boundary", trained, wrong, torch.full((3,), 1), target=7, tries=1, starts=wrong)
    assert found.rate == 0
    assert all("pass starts=" in str(reason) for reason in found.reasons)


def test_what_an_oracle_cannot_give_is_refused(trained, digits):
    door = oracle(trained)
    with pytest.raises(UsageError, match="attack a substitute"):
        evade("pgd", door, *digits, eps=0.1)
    with pytest.raises(UsageError, match="name the target classes"):
        evade("boundary", door, *digits, target="second")
    with pytest.raises(UsageError, match="expected starts like the inputs"):
        evade("boundary", door, *digits, starts=torch.zeros(2, 3))
    assert door.ledger.spent("evaluation") == 0
