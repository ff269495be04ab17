"""What `evade` promises of every attack, whatever the attack itself does."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from leakmeter.errors import Inconclusive, UsageError
from leakmeter.evasion.access import WhiteBox
from leakmeter.evasion.attack import Candidates, GradientAttack, Problem
from leakmeter.evasion.base import ATTACKS, evade

CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("fgsm", "linf", {"eps": 0.1}),
    ("fgsm", "l2", {"eps": 0.7}),
    ("bim", "linf", {"eps": 0.1}),
    ("bim", "l2", {"eps": 0.7}),
    ("mifgsm", "linf", {"eps": 0.1}),
    ("mifgsm", "l2", {"eps": 0.7}),
    ("pgd", "linf", {"eps": 0.1, "restarts": 2}),
    ("pgd", "l2", {"eps": 0.7, "restarts": 2}),
    ("pgd", "linf", {"eps": 0.1, "early_stop": False}),
    ("cw", "l2", {"steps": 60, "rounds": 4}),
    ("cw", "l2", {"steps": 60, "rounds": 4, "eps": 0.7}),
    ("boundary", "l2", {"steps": 200}),
    ("boundary", "l2", {"steps": 200, "eps": 0.7}),
]
every_attack = pytest.mark.parametrize(("name", "norm", "options"), CASES)


@every_attack
def test_success_distance_and_box_are_true(trained, digits, name, norm, options):
    x, y = digits
    found = evade(name, trained, x, y, norm=norm, **options)
    assert found.examples.shape == x.shape
    assert found.examples.min() >= 0
    assert found.examples.max() <= 1
    offset = (found.examples.double() - x.double()).flatten(1)
    distance = offset.abs().amax(1) if norm == "linf" else offset.norm(dim=1)
    assert torch.allclose(found.distance, distance, rtol=1e-12)
    assert (distance <= options.get("eps", torch.inf)).all()
    assert torch.equal(found.success, trained(found.examples).argmax(1) != y)
    assert found.success.any()
    assert [reason is None for reason in found.reasons] == found.success.tolist()
    assert found.queries == 0


@every_attack
def test_targets_are_reached(trained, digits, name, norm, options):
    x, y = digits
    found = evade(name, trained, x, y, norm=norm, target="second", **options)
    logits = trained(x).detach()
    second = logits.topk(2).indices[:, 1]
    assert torch.equal(found.success, trained(found.examples).argmax(1) == second)
    assert found.success.any()


@every_attack
def test_the_model_and_the_global_generator_stay_as_they_were(trained, digits, name, norm, options):
    model = copy.deepcopy(trained).train()
    children = list(model.children())
    children[0].eval()
    next(model.parameters()).requires_grad_(False)
    for parameter in list(model.parameters())[1:]:
        parameter.grad = torch.ones_like(parameter)
    weights = copy.deepcopy(model.state_dict())
    torch.manual_seed(5)
    before = torch.get_rng_state()
    evade(name, model, digits[0][:5], digits[1][:5], norm=norm, **options)
    assert torch.equal(torch.get_rng_state(), before)
    assert model.training
    assert not children[0].training
    assert [p.requires_grad for p in model.parameters()] == [False] + [True] * (len(list(model.parameters())) - 1)
    assert all(p.grad is None or (p.grad == 1).all() for p in model.parameters())
    assert all(torch.equal(value, weights[key]) for key, value in model.state_dict().items())


@every_attack
def test_a_seed_gives_the_same_examples_and_the_callers_state_does_not_matter(trained, digits, name, norm, options):
    x, y = digits[0][:10], digits[1][:10]
    first = evade(name, trained, x, y, norm=norm, seed=3, **options)
    torch.manual_seed(99)
    with torch.inference_mode():
        second = evade(name, trained, x, y, norm=norm, seed=3, **options)
    assert torch.equal(first.examples, second.examples)


@every_attack
def test_an_example_does_not_depend_on_its_neighbours(trained, digits, name, norm, options):
    x, y = digits
    together = evade(name, trained, x, y, norm=norm, **options)
    few = evade(name, trained, x[:20], y[:20], norm=norm, batch=7, **options)
    near = (together.examples[:20] - few.examples).flatten(1).norm(dim=1) < 1e-3
    # Rounding inside the model depends on the batch, and a random walk may part company over one such bit.
    assert near.double().mean() > 0.8


@every_attack
def test_eps_0_returns_the_input(trained, digits, name, norm, options):
    x, y = digits
    found = evade(name, trained, x, y, norm=norm, **(options | {"eps": 0.0}))
    assert torch.equal(found.examples, x)
    assert found.distance.max() == 0
    assert found.rate == 0


@every_attack
def test_inputs_already_wrong_count_as_broken(trained, digits, name, norm, options):
    x, y = digits
    found = evade(name, trained, x, (y + 1) % 10, norm=norm, **options)
    assert found.rate > 0.9
    if name in {"cw", "boundary"}:
        assert torch.equal(found.examples, x)


def test_an_attacks_own_claim_is_not_believed(trained, digits, monkeypatch):
    x, y = digits

    class Liar(GradientAttack):
        def run(self, problem: Problem[Any]) -> Candidates:
            return Candidates(problem.x + 3e-8 + 5 * torch.rand_like(problem.x))

    monkeypatch.setitem(ATTACKS._own, "liar", "unused")
    monkeypatch.setattr(type(ATTACKS), "__getitem__", lambda self, name: Liar)
    found = evade("liar", trained, x, y, norm="linf", eps=0.01)
    assert found.examples.max() <= 1
    assert found.distance.max() <= 0.01
    assert torch.equal(found.success, trained(found.examples).argmax(1) != y)


def test_a_flat_model_is_named_as_the_reason(digits):
    class Saturated(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            score = (x.flatten(1).sum(1, keepdim=True) * 1e4).clamp(max=100.0)
            return torch.cat([score, torch.zeros_like(score)], 1)

    x = digits[0][:4]
    for name in ("fgsm", "bim", "pgd"):
        found = evade(name, Saturated(), x, torch.zeros(4).long(), eps=0.01)
        assert found.rate == 0
        assert all("gradient is zero" in str(reason) for reason in found.reasons)


def test_more_restarts_never_do_worse(trained, digits):
    x, y = digits
    once, often = (evade("pgd", trained, x, y, norm="linf", eps=0.08, steps=5, restarts=r) for r in (1, 5))
    assert (often.success | ~once.success).all()


def test_going_on_after_success_widens_the_margin(trained, digits):
    x, y = digits

    def lead(early_stop: bool) -> float:
        found = evade("pgd", trained, x, y, norm="linf", eps=0.2, early_stop=early_stop)
        logits = trained(found.examples).detach()
        own = logits.gather(1, y[:, None])[:, 0]
        return (logits.scatter(1, y[:, None], -torch.inf).amax(1) - own).median().item()

    assert lead(early_stop=False) > lead(early_stop=True) + 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "pdg"}, "did you mean 'pgd'"),
        ({"norm": "l1"}, "expected norm linf or l2"),
        ({"name": "cw", "norm": "linf"}, "expected norm l2"),
        ({"eps": None}, "pass eps"),
        ({"eps": -0.1}, "eps of at least 0"),
        ({"eps": float("nan")}, "eps of at least 0"),
        ({"step": 3}, "did you mean 'steps'"),
        ({"steps": 0}, "pgd: 'steps'"),
        ({"eot": 0}, "at least 1"),
        ({"model": len}, "torch module or an Oracle"),
        ({"x": torch.zeros(2, 1, 8, 8, dtype=torch.long)}, "floating-point"),
        ({"x": torch.full((2, 1, 8, 8), 255.0)}, "of at most 1, got 255"),
        ({"x": torch.full((2, 1, 8, 8), torch.nan)}, "finite"),
        ({"x": torch.zeros(0, 1, 8, 8), "y": torch.zeros(0).long()}, "n above 0"),
        ({"y": torch.zeros(3).long()}, "n labels"),
        ({"y": torch.tensor([0.0, 1.0])}, "whole numbers"),
        ({"y": torch.tensor([0, 10])}, "from 0 to 9"),
        ({"low": 1.0, "high": 0.0}, "low below high"),
        ({"target": 12}, "from 0 to 9"),
        ({"target": 0}, "other than the true classes"),
        ({"target": "third"}, "'second'"),
        ({"model": nn.Flatten(0)}, "expected logits of shape"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(trained, change, message):
    name, model = change.pop("name", "pgd"), change.pop("model", trained)
    x, y = change.pop("x", torch.zeros(2, 1, 8, 8)), change.pop("y", torch.tensor([0, 1]))
    with pytest.raises(UsageError, match=message):
        evade(name, model, x, y, **({"eps": 0.1} | change))


def test_a_model_that_answers_nan_or_has_no_gradient_is_refused(digits):
    x, y = digits[0][:2], torch.zeros(2).long()

    class Odd(nn.Module):
        def __init__(self, value: float) -> None:
            super().__init__()
            self.value = value

        def forward(self, x: Tensor) -> Tensor:
            return torch.full((len(x), 2), self.value)

    with pytest.raises(Inconclusive, match="NaN"):
        evade("pgd", Odd(torch.nan), x, y, eps=0.1)
    with pytest.raises(UsageError, match="boundary"):
        evade("pgd", Odd(1.0), x, y, eps=0.1)


@pytest.mark.parametrize("loss", ["ce", "margin", "both"])
@pytest.mark.parametrize("steps", [1, 2, 3, 10])
def test_pgd_computes_as_many_gradients_as_it_was_given_steps(trained, digits, monkeypatch, loss, steps):
    calls = []
    measured = WhiteBox.gradient

    def counted(self: WhiteBox, *arguments: Any) -> tuple[Tensor, Tensor]:
        calls.append(1)
        return measured(self, *arguments)

    monkeypatch.setattr(WhiteBox, "gradient", counted)
    evade("pgd", trained, *digits, eps=0.1, steps=steps, loss=loss, restarts=2, early_stop=False)
    assert len(calls) == 2 * steps
