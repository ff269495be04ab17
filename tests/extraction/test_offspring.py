"""Queries bred from queries: who is a parent, and what a child looks like."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from leakmeter.extraction.base import extract
from leakmeter.extraction.sources.offspring import Stock, offspring, parents
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


def test_of_large_pictures_as_many_as_fit_are_kept_and_no_class_is_lost() -> None:
    stock, start = Stock(6, (1, 2, 2)), 0
    for labels in ([0, 0, 0, 1], [0, 0, 0, 0], [2, 0, 0, 0]):
        x = torch.arange(start, start + len(labels)).float()[:, None, None, None].expand(-1, 1, 2, 2)
        stock.add(x, start, torch.tensor(labels), 3)
        start += len(labels)
    assert torch.equal(stock.x[:, 0, 0, 0].long(), stock.rows), "each picture stays with its number"
    assert sorted(stock.rows.tolist()) == [3, 7, 8, 9, 10, 11], "the only ones of classes 1 and 2, and the latest of 0"


def test_what_is_held_of_large_pictures_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakmeter.extraction.sources.asking._BLOCK_LARGE", 10 * 3 * 120 * 160)
    asked: list[int] = []

    def model(x: np.ndarray) -> np.ndarray:
        asked.append(len(x))
        return np.stack([x.mean((1, 2, 3)), x[:, 0].mean((1, 2)) - 0.05, x[:, 1].std((1, 2))], 1) * 9

    victim = load_victim(model, input_shape=(3, 120, 160), low=0.0, high=1.0, outputs="logits")
    copy = extract("auto", Oracle(victim, "probs", 130), students=("convolutional",), effort=0.01)
    assert sum(asked[1:]) == 130
    assert max(asked) <= 10
    assert copy.notes["sources"]["offspring"]["queries"] > 0
    assert copy.substitute(torch.rand(2, 3, 120, 160)).shape == (2, 3)
    (sheet,) = [copy.queries] if copy.queries is not None else [torch.empty(0, 3, 120, 160)]
    assert sheet.shape[1:] == (3, 120, 160)
