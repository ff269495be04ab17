"""Asks points once each, many searches at a time, and numbers the different answers."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leakmeter.errors import BudgetExhausted
from leakmeter.extraction.exact_tree.axes import Axes, Point
from leakmeter.oracle.answer import Answer
from leakmeter.oracle.oracle import Oracle

Search = Generator[Sequence[Point], list[int], Any]
"""A search yields points and is sent the numbers of their answers."""
_DECIMALS = 9  # answers nearer than this are one: sums of floats differ in their last bits


class Asker:
    """Remembers every answer. Two points with one number were answered alike."""

    def __init__(self, oracle: Oracle, axes: Axes) -> None:
        self.oracle, self.axes = oracle, axes
        self.known: dict[Point, int] = {}
        self.values: list[Tensor] = []
        """The answer of each number: logits, probabilities or a one-hot label."""
        self.exhausted = False
        self.answers: list[Answer] = []
        """All answers, in the order of `known`."""
        self._numbers: dict[bytes, int] = {}

    @property
    def labels(self) -> Tensor:
        """The class of every answer, one a point."""
        return torch.stack(self.values)[list(self.known.values())].argmax(1)

    def ask(self, points: Sequence[Point]) -> bool:
        """Learns the answers to the points; False: the budget ended before all were answered."""
        fresh = list(dict.fromkeys(point for point in points if point not in self.known))
        if not fresh:
            return True
        try:
            answer = self.oracle.query_up_to_budget(
                self.axes.rows(fresh, self.oracle.spec.dtype).reshape(-1, *self.oracle.spec.input_shape)
            )
        except BudgetExhausted:
            self.exhausted = True
            return False
        self.answers.append(answer)
        for point, value in zip(fresh, _values(answer), strict=False):
            self.known[point] = self._number(value)
        self.exhausted = len(answer) < len(fresh)
        return not self.exhausted

    def run(self, searches: Sequence[Search]) -> list[Any]:
        """Runs the searches side by side; what each returned, None for those the budget cut short."""
        results: list[Any] = [None] * len(searches)
        waiting: dict[int, Sequence[Point]] = {}
        for number, search in enumerate(searches):
            self._advance(search, None, number, waiting, results)
        while waiting and self.ask([point for points in waiting.values() for point in points]):
            for number, points in list(waiting.items()):
                del waiting[number]
                self._advance(searches[number], [self.known[point] for point in points], number, waiting, results)
        return results

    @staticmethod
    def _advance(
        search: Search, sent: list[int] | None, number: int, waiting: dict[int, Sequence[Point]], results: list[Any]
    ) -> None:
        try:
            waiting[number] = next(search) if sent is None else search.send(sent)
        except StopIteration as end:
            results[number] = end.value

    def _number(self, value: Tensor) -> int:
        key = np.round(value.numpy(), _DECIMALS).tobytes() + bytes([int(value.argmax()) % 256])  # a tie has a winner
        if key not in self._numbers:
            self._numbers[key] = len(self.values)
            self.values.append(value)
        return self._numbers[key]


def _values(answer: Answer) -> Tensor:
    if answer.view.kind == "labels":
        return torch.nn.functional.one_hot(answer.labels, max(2, answer.classes)).double()
    return (answer.logits if answer.view.kind == "logits" else answer.probs).double() + 0.0  # -0.0 is 0.0
