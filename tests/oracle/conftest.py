"""Victims that remember what they were asked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from leakmeter.oracle.ledger import Ledger
from leakmeter.oracle.log import AnswerLog
from leakmeter.oracle.oracle import Oracle
from leakmeter.victims.load import load_victim
from leakmeter.victims.victim import Victim

Door = Callable[..., Oracle]


class Counter:
    """A linear-softmax victim on four features and three classes, in plain numpy; `rows` is what it really computed."""

    def __init__(self) -> None:
        self.weights = np.random.default_rng(0).normal(size=(4, 3))
        self.calls: list[np.ndarray] = []
        self._lock = threading.Lock()

    def __call__(self, x: np.ndarray) -> np.ndarray:
        with self._lock:
            self.calls.append(x.copy())
        scores = np.exp(x.astype(float) @ self.weights)
        return (scores / scores.sum(1, keepdims=True)).astype(np.float32)

    @property
    def rows(self) -> int:
        return sum(map(len, self.calls))


@pytest.fixture
def counter() -> Counter:
    return Counter()


@pytest.fixture
def victim(counter: Counter) -> Victim:
    victim = load_victim(counter, input_shape=(4,), low=0.0, high=1.0, name="counter")
    counter.calls.clear()
    victim.batch = 8
    return victim


@pytest.fixture
def door(victim: Victim, tmp_path: Path) -> Door:
    """Opens the same run again and again, as processes after each other would."""

    def open_door(budget: int | None = None, view: str = "probs", **more: object) -> Oracle:
        ledger = Ledger(tmp_path / "ledger.sqlite", budget=budget)
        return Oracle(victim, view, ledger=ledger, log=AnswerLog(tmp_path / "answers"), **more)  # type: ignore[arg-type]

    return open_door
