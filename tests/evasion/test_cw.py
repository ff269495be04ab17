from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from leakmeter.evasion.base import evade


def test_failures_are_named_with_what_to_change(trained, digits):
    x, y = digits
    found = evade("cw", trained, x, y, steps=2, rounds=1, rate=1e-4)
    assert found.rate == 0
    assert torch.equal(found.examples, x)
    for reason in found.reasons:
        assert reason is not None
        assert "up to c = 1" in reason
        assert "raise rounds or steps" in reason


def test_a_model_without_slope_is_named_as_the_reason(digits):
    class Steps(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            score = x.flatten(1).sum(1, keepdim=True) * 0 + 1.0
            return torch.cat([score, -score], 1)

    found = evade("cw", Steps(), digits[0][:3], torch.zeros(3).long(), steps=5)
    assert all("gradient is zero" in str(reason) for reason in found.reasons)


def test_examples_beyond_eps_fail_and_say_how_far_they_are(trained, digits):
    x, y = digits
    free = evade("cw", trained, x, y, steps=60)
    eps = free.distance.median().item()
    bound = evade("cw", trained, x, y, steps=60, eps=eps)
    assert 0.3 < bound.rate < 0.7
    assert bound.distance.max() <= eps
    assert any("beyond l2" in str(reason) for reason in bound.reasons)


def test_confidence_is_a_margin_in_logits(trained, digits):
    x, y = digits
    found = evade("cw", trained, x, y, steps=100, confidence=3.0)
    logits = trained(found.examples).detach()
    lead = logits.scatter(1, y[:, None], -torch.inf).amax(1) - logits.gather(1, y[:, None])[:, 0]
    assert (lead[found.success] > 2.999).all()
    assert found.distance.median() > evade("cw", trained, x, y, steps=100).distance.median()


def test_a_poor_first_c_is_mended_by_the_search(trained, digits):
    x, y = digits
    good = evade("cw", trained, x, y, steps=100)
    for c in (1e-4, 1e4):
        found = evade("cw", trained, x, y, steps=100, c=c)
        assert found.rate == 1
        assert found.distance.median() <= 1.05 * good.distance.median()


@pytest.mark.parametrize("low", [0.0, None])
def test_it_works_with_an_open_box(trained, digits, low):
    found = evade("cw", trained, *digits, steps=100, low=low, high=None)
    assert found.rate == 1
    assert (found.examples.min() < 0) == (low is None)


def test_the_scale_of_the_inputs_does_not_matter(trained, digits):
    x, y = digits

    class Bytes(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return trained(x / 255)

    unit = evade("cw", trained, x, y, steps=100)
    bytes_ = evade("cw", Bytes(), 255 * x, y, steps=100, high=255.0)
    assert bytes_.rate == 1
    assert abs((bytes_.distance / 255).median() / unit.distance.median() - 1) < 0.01


def test_a_few_steps_are_enough_to_break_a_plain_network(trained, digits):
    assert evade("cw", trained, *digits, steps=20).rate == 1
