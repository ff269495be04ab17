"""Who asks: draws from several sources, in proportion to what their answers showed so far.

A source whose queries are all given the same class teaches nothing. So each is tried a little, and the rest comes from
those whose answers spread most evenly over the classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from leakmeter.errors import BudgetExhausted
from leakmeter.evaluation.score import predict
from leakmeter.extraction.game import class_entropy
from leakmeter.extraction.procedural import fairest
from leakmeter.extraction.sources import POINTS, SOURCES, Source
from leakmeter.oracle.answer import Answer
from leakmeter.oracle.oracle import Oracle

POOL = "pool"
_SHARPNESS = 20.0  # a source whose answers are 0.05 less spread gets a third of the queries
_BLOCK = 2**26  # numbers in the candidates held at once
_POINTS = 0.25  # of the queries at most are points of the box, where there are pictures to ask
_COLLAPSED = 0.3  # unless all pictures are given hardly more than one class
_PLAUSIBLE = 40  # held out must be taken from so many rows at least
_CHOICE = 8  # candidates for each query chosen


@dataclass(frozen=True, eq=False)
class _Drawn:
    """Queries to choose from: the number of the source of each, and its place in the pool (-1: not from there)."""

    x: Tensor
    origin: Tensor
    place: Tensor

    def __getitem__(self, rows: Tensor | slice) -> _Drawn:
        return _Drawn(self.x[rows], self.origin[rows], self.place[rows])


class Asker:
    """What was asked so far: the queries `x`, their answers, and the source of each."""

    def __init__(self, oracle: Oracle, names: tuple[str, ...], pool: Tensor | None, draws: torch.Generator) -> None:
        self.oracle, self.draws = oracle, draws
        self.x = torch.empty(0, *oracle.spec.input_shape)
        self.exhausted = False
        self._answers: list[Answer] = []
        self._sources: dict[str, Source] = {name: SOURCES[name] for name in names}
        self._pool = torch.empty(0, *oracle.spec.input_shape) if pool is None else pool
        self._left = torch.randperm(len(self._pool), generator=draws)
        self.names = [*names] if pool is None else [*names, POOL]
        self._origin = torch.empty(0, dtype=torch.long)

    @property
    def answer(self) -> Answer:
        """All answers."""
        return Answer.join(self._answers)

    def spread(self) -> dict[str, float]:
        """Of each source, how evenly its answers spread over the classes: 0 one class, 1 all alike."""
        labels, classes = self.answer.labels, max(2, self.oracle.spec.classes)
        rows = {name: self._origin == number for number, name in enumerate(self.names)}
        return {name: class_entropy(labels[own].bincount(minlength=classes)) for name, own in rows.items()}

    def plausible(self) -> Tensor:
        """Rows of the queries most like what the victim is meant for: of the pool, else pictures, else all."""
        numbers = [self.names.index(POOL)] if POOL in self.names else _like_pictures(self.names)
        rows = torch.isin(self._origin, torch.tensor(numbers)).nonzero()[:, 0]
        return rows if len(rows) >= _PLAUSIBLE else torch.arange(len(self.x))

    def counts(self) -> dict[str, int]:
        """Of each source, how many queries were asked."""
        return dict(zip(self.names, self._origin.bincount(minlength=len(self.names)).tolist(), strict=True))

    def explore(self, n: int) -> None:
        """Asks `n` queries, the sources in turn."""
        even = dict.fromkeys(self.names, 1.0)
        self._ask(self._draw(n, even))

    def exploit(self, goal: int, scout: nn.Module | None) -> None:
        """Asks up to `goal` in all, by what the sources showed; with a scout, what it finds hardest to tell."""
        weights = source_weights(self.spread())
        most = max(1, _BLOCK // self.oracle.spec.features // (1 if scout is None else _CHOICE))
        while len(self.x) < goal and not self.exhausted:
            n = min(goal - len(self.x), most)
            if scout is None:
                self._ask(self._draw(n, weights))
            else:
                self._ask(self._hardest(n, self._draw(n * _CHOICE, weights), scout))

    def _hardest(self, n: int, drawn: _Drawn, scout: nn.Module) -> _Drawn:
        """Close calls between two classes, always from the class that would have the fewest answers."""
        outputs = predict(scout, drawn.x)
        if outputs.shape[1] == 1:
            outputs = torch.cat([torch.zeros_like(outputs), outputs], 1)
        likely = outputs.softmax(1).topk(2, dim=1)
        answered = self.answer.labels.bincount(minlength=outputs.shape[1])
        return drawn[fairest(likely.indices[:, 0], -likely.values.diff(dim=1)[:, 0], answered)[:n]]

    def _draw(self, n: int, weights: Mapping[str, float]) -> _Drawn:
        """Queries in random order; what the pool cannot give, the others do."""
        parts = []
        for name, share in _shares(n, weights, len(self._left)).items():
            place = self._left[:share] if name == POOL else torch.full((share,), -1)
            x = self._pool[place] if name == POOL else self._sources[name](share, self.oracle.spec, self.draws)
            parts.append(_Drawn(x, torch.full((share,), self.names.index(name)), place))
        order = torch.randperm(n, generator=self.draws)
        columns = ([part.x for part in parts], [part.origin for part in parts], [part.place for part in parts])
        return _Drawn(*(torch.cat(column)[order] for column in columns))

    def _ask(self, drawn: _Drawn) -> None:
        try:
            answer = self.oracle.query_up_to_budget(drawn.x)
        except BudgetExhausted:
            self.exhausted = True
            if not self._answers:
                raise
            return
        self.exhausted = len(answer) < len(drawn.x)
        asked = drawn[: len(answer)]
        self.x, self._answers = torch.cat([self.x, asked.x.float()]), [*self._answers, answer]
        self._origin = torch.cat([self._origin, asked.origin])
        self._left = self._left[~torch.isin(self._left, asked.place)]


def source_weights(spread: Mapping[str, float]) -> dict[str, float]:
    """How much to ask of each source: the more evenly its answers spread, the more.

    Points of the box get at most a share where there are pictures: a victim's answers to noise may well spread, and yet
    say little of what it does to pictures.
    """
    best = max(spread.values())
    weights = {name: 2.0 ** (_SHARPNESS * (value - best)) for name, value in spread.items()}
    points = [name for name in spread if name in POINTS]
    others = sum(weight for name, weight in weights.items() if name not in points)
    if len(points) < len(spread) and max(spread[name] for name in spread if name not in points) >= _COLLAPSED:
        surplus = sum(weights[name] for name in points) / (others * _POINTS / (1 - _POINTS))
        weights |= {name: weights[name] / max(1.0, surplus) for name in points}
    return weights


def _like_pictures(names: list[str]) -> list[int]:
    return [number for number, name in enumerate(names) if name not in POINTS]


def _shares(n: int, weights: Mapping[str, float], pool: int) -> dict[str, int]:
    """How many of `n` queries each source gives, at most `pool` of them the pool."""
    shares = {}
    if POOL in weights:
        others = sum(weights.values()) - weights[POOL]
        shares[POOL] = min(pool, round(n * weights[POOL] / (others + weights[POOL])))
        weights, n = {name: weight for name, weight in weights.items() if name != POOL}, n - shares[POOL]
    total = sum(weights.values())
    shares |= {name: int(n * weight / total) for name, weight in weights.items()}
    richest = max(weights, key=weights.__getitem__)
    shares[richest] += n - sum(share for name, share in shares.items() if name != POOL)
    return {name: share for name, share in shares.items() if share}
