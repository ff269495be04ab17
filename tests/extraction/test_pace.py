"""How fast this machine learns, beside the one by which seconds are reckoned."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch
from torch import nn

from leakmeter.extraction import pace as pace_module
from leakmeter.extraction.pace import pace
from leakmeter.victims.load import load_victim
from leakmeter.victims.spec import VictimSpec


def spec(shape: tuple[int, ...]) -> VictimSpec:
    net = nn.Sequential(nn.Flatten(), nn.Linear(torch.Size(shape).numel(), 3))
    return load_victim(net, input_shape=shape, low=0.0, high=1.0, outputs="logits").spec


@pytest.mark.parametrize("shape", [(5,), (1, 8, 8), (3, 32, 32)])
def test_steps_are_timed_once_and_told_in_notches(shape: tuple[int, ...]) -> None:
    found = pace(spec(shape))
    assert math.log2(found) * 4 == pytest.approx(round(math.log2(found) * 4))
    known = pace_module._measured.cache_info().misses
    assert pace(spec(shape)) == found
    assert pace_module._measured.cache_info().misses == known


@pytest.fixture
def forgetful() -> Iterator[None]:
    pace_module._measured.cache_clear()
    yield
    pace_module._measured.cache_clear()


@pytest.mark.usefixtures("forgetful")
def test_a_machine_twice_as_slow_is_told_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    def told(seconds: float) -> float:
        ticks = iter(range(10**6))
        monkeypatch.setattr(pace_module.time, "process_time", lambda: next(ticks) * seconds)
        pace_module._measured.cache_clear()
        return pace(spec((1, 8, 8)))

    assert told(0.2) == pytest.approx(2 * told(0.1))
