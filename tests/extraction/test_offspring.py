"""Queries bred from queries: who is a parent, and what a child looks like."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from leakmeter.extraction.base import extract
from leakmeter.extraction.sources.offspring import offspring, parents
from leakmeter.oracle.oracle import Oracle
from leakmeter.seeds import stream
from leakmeter.victims.load import load_victim


def test_every_class_is_bred_as_often_as_it_lacks_answers() -> None:
    labels = torch.tensor([0] * 90 + [1] * 9 + [2])
    probs = torch.nn.functional.one_hot(labels, 3).float()
    chosen = labels[parents(probs, labels, 20_000, stream(1))]
    shares = chosen.flatten().bincount(minlength=3) / chosen.numel()
    wanted = torch.tensor([1 / 90, 1 / 9, 1.0])
    assert torch.allclose(shares, wanted / wanted.sum(), atol=0.01)
    assert (chosen[0] == chosen[1]).float().mean() > 0.999, "both parents are of the class that is lacking"


def test_a_class_never_answered_is_bred_from_what_came_nearest() -> None:
    probs = torch.tensor([[0.9, 0.1, 0.0], [0.5, 0.1, 0.4], [0.9, 0.1, 0.0]])
    rows = parents(probs, torch.zeros(3, dtype=torch.long), 5_000, stream(2))
    assert (rows == 1).float().mean() > 0.35  # a third by luck, two fifths of one class and all of another


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("low", [0.0, -2.0, None])
def test_children_differ_from_their_parents_and_lie_in_the_box(channels: int, low: float | None) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(channels * 100, 2))
    high = None if low is None else 3.0
    spec = load_victim(net, input_shape=(channels, 10, 10), low=low, high=high, outputs="logits").spec
    x = spec.clamp(torch.randn(20, channels, 10, 10, generator=stream(3)))
    children = offspring(x[:10], x[10:], spec, stream(4))
    assert torch.equal(children, offspring(x[:10], x[10:], spec, stream(4)))
    assert torch.equal(children, spec.clamp(children))
    assert ((children - x[:10]).flatten(1).norm(dim=1) > 0.1).all()


def test_a_victim_that_names_one_class_almost_always_is_asked_about_the_others() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    with torch.no_grad():
        net[1].weight.normal_(generator=stream(5)).mul_(0.3)
        net[1].bias.copy_(torch.tensor([3.0, 0.0, -1.0]))
    victim = load_victim(net, input_shape=(1, 8, 8), low=0.0, high=1.0, outputs="logits")
    copy = extract("auto", Oracle(victim, "probs", 400), students=("linear",), effort=0.01)
    assert copy.notes["sources"]["offspring"]["queries"] > 50
