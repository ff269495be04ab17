"""Who asks: draws from several sources, in proportion to what their answers showed so far.

A source whose queries are all given the same class, or none for sure, teaches little. So each is tried, and the rest
comes from those whose answers tell most, looked at again as answers grow. Of pictures a part is bred from what was
asked already (`offspring.py`), so that no class stays without answers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from leakmeter.errors import BudgetExhausted
from leakmeter.evaluation.score import predict
from leakmeter.extraction.durations import SMALL
from leakmeter.extraction.findings import class_counts, class_entropy
from leakmeter.extraction.procedural import fairest
from leakmeter.extraction.sources import POINTS, SOURCES, Source
from leakmeter.extraction.sources.offspring import Stock, offspring, parents
from leakmeter.extraction.students.reduced import reduced, reduction
from leakmeter.extraction.targets import answered_probs
from leakmeter.oracle.answer import Answer
from leakmeter.victims.spec import VictimSpec

POOL, OFFSPRING = "pool", "offspring"
_BRED, _LACK = 0.5, 2.0  # of the pictures at most; so many times what the entropy of blind answers' classes lacks
_PARENTS, _ROUND = (
    50,
    0.35,
)  # answers from which pictures are bred; growth of the answers before they are looked at again
_NOTHING = 1e-6  # that little is rounding
_DOUBLING, _SURE = 0.05, 0.5  # of the most that an answer can tell; below this all counts in proportion to the best
_BLOCK, _BLOCK_LARGE = 2**26, 2**23  # numbers in the candidates held at once; of large pictures
_POINTS = 0.1  # of the queries at most are points of the box, where there are pictures to ask
_COLLAPSED = 0.15  # what answers to pictures must tell for that
_TELLING, _ALIKE = 0.1, 0.5  # of what the best source tells; of the queries of a table
_TELLING_PICTURES, _ALIKE_PICTURES = 0.25, 0.3  # the same of small pictures
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

    def followed_by(self, other: _Drawn) -> _Drawn:
        """Both, one after the other."""
        columns = ((self.x, other.x), (self.origin, other.origin), (self.place, other.place))
        return _Drawn(*(torch.cat(pair) for pair in columns))


class Asked(Protocol):
    """Who answers."""

    @property
    def spec(self) -> VictimSpec:
        """What queries look like."""

    def query_up_to_budget(self, x: Tensor) -> Answer:
        """Answers as many of the queries as the budget allows."""


class Asker:
    """What was asked so far: the queries `x` as students see them, their answers, and the source of each."""

    def __init__(
        self,
        oracle: Asked,
        names: tuple[str, ...],
        pool: Tensor | None,
        draws: torch.Generator,
        *,
        guessed: bool = False,
    ) -> None:
        self.oracle, self.draws, self._guessed = oracle, draws, guessed
        self.x = reduced(torch.empty(0, *oracle.spec.input_shape))
        self.exhausted = False
        large = reduction(oracle.spec.input_shape) > 1
        self._block = (_BLOCK_LARGE if large else _BLOCK) // oracle.spec.features
        self._stock = Stock(max(16, _BLOCK // 2 // oracle.spec.features), oracle.spec.input_shape) if large else None
        self._answers: list[Answer] = []
        self._sources: dict[str, Source] = {name: SOURCES[name] for name in names}
        self._pool = torch.empty(0, *oracle.spec.input_shape) if pool is None else pool
        self._left = torch.randperm(len(self._pool), generator=draws)
        self.names = [*names] if pool is None else [*names, POOL]
        self._points = POINTS if len(oracle.spec.input_shape) == 3 else ()
        self._breeds = len(oracle.spec.input_shape) == 3 and bool(names)
        self._origin = torch.empty(0, dtype=torch.long)
        self._blind = torch.empty(0, dtype=torch.bool)
        self._picked = torch.empty(0, dtype=torch.bool)

    @property
    def answer(self) -> Answer:
        """All answers."""
        return Answer.join(self._answers)

    @property
    def pictures(self) -> Tensor:
        """Queries as they were asked: all, of large pictures as many as are kept."""
        return self.x if self._stock is None else self._stock.x.float()

    def information(self) -> dict[str, float]:
        """Of each source, how much an answer tells which class it is, as a share of the most it could; 0: nothing.

        The entropy of all its answers together less the mean entropy of each: a source is worth asking if its answers
        differ and if each is sure. Labels are always sure. Queries that a scout chose are no sample of their source.
        """
        probs = _as_probs(self.answer)
        parts = {name: probs[self._blind & (self._origin == number)] for number, name in enumerate(self.names)}
        return {name: _information(part) for name, part in parts.items()}

    def plausible(self) -> Tensor:
        """Rows of the queries most like what the victim is meant for: of the pool, else pictures, else all.

        Of small pictures those that a scout picked are left out: students are all alike at what is hard for one.
        """
        names = [*self.names, OFFSPRING]
        liked = [POOL] if POOL in names else [name for name in names if name not in self._points]
        among = torch.isin(self._origin, torch.tensor([names.index(name) for name in liked]))
        easy = among & ~self._picked if self._points and self.oracle.spec.features <= SMALL else among
        for rows in (easy.nonzero()[:, 0], among.nonzero()[:, 0]):
            if len(rows) >= _PLAUSIBLE:
                return rows
        return torch.arange(len(self.x))

    def counts(self) -> dict[str, int]:
        """Of each source, how many queries were asked."""
        counts = self._origin.bincount(minlength=len(self.names) + 1).tolist()
        return dict(zip([*self.names, OFFSPRING][: len(self.names) + self._breeds], counts, strict=False))

    def explore(self, n: int) -> None:
        """Asks `n` queries, most of the sources that were asked least."""
        goal = len(self.x) + n
        while len(self.x) < goal and not self.exhausted:
            asked, even = self.counts(), goal / len(self.names)
            weights = {name: max(even - asked[name], 1e-9) for name in self.names}
            self._ask(self._draw(min(goal - len(self.x), max(1, self._block)), weights))

    def exploit(self, goal: int, scout: nn.Module | None, without: tuple[str, ...] = ()) -> None:
        """Asks up to `goal` in all, by what the sources showed; with a scout, what it finds hardest to tell.

        Args:
            goal: queries in all.
            scout: a student of the answers so far.
            without: sources to leave out.
        """
        most = max(1, self._block // (1 if scout is None else _CHOICE))
        while len(self.x) < goal and not self.exhausted:
            n = min(goal - len(self.x), most, math.ceil(_ROUND * len(self.x)))
            if scout is None:
                self._ask(self._mixed(n, without))
            else:
                drawn = self._mixed(n * _CHOICE, without, scouted=True)
                self._ask(self._hardest(n, drawn, scout), blind=False)

    def _mixed(self, n: int, without: tuple[str, ...], *, scouted: bool = False) -> _Drawn:
        """Queries of all sources by what they showed, and children of what was asked."""
        ready = self._breeds and len(self.x) >= _PARENTS and not len(self._left)  # what is real is better
        bred = round(n * self._bred()) if ready else 0
        worth = self.information()
        worth = {name: value for name, value in worth.items() if name not in without} or worth
        if len(self._left) and worth[POOL] == max(worth.values()):
            worth = {POOL: worth[POOL]}
        points = () if self._guessed else self._points
        known = points and self.oracle.spec.features > SMALL  # of colours what tells most also looks most alike
        scouted = scouted and not self._guessed
        drawn = self._draw(n - bred, source_weights(worth, points) if known else hedged(worth, points, scouted=scouted))
        return drawn.followed_by(self._offspring(bred)) if bred else drawn

    def _bred(self) -> float:
        """The more of the queries, the fewer of the classes blind ones meet."""
        met = class_entropy(class_counts(self.answer.labels[self._blind], self.oracle.spec.classes))
        return min(_BRED, _LACK * (1 - (met or 0.0)))

    def _offspring(self, n: int) -> _Drawn:
        probs, pictures = _as_probs(self.answer), self.x
        if self._stock is not None:
            probs, pictures = probs[self._stock.rows], self._stock.x
        mothers, fathers = parents(probs, self.answer.labels, n, self.draws)
        x = offspring(pictures[mothers].float(), pictures[fathers].float(), self.oracle.spec, self.draws)
        return _Drawn(x, torch.full((n,), len(self.names)), torch.full((n,), -1))

    def _hardest(self, n: int, drawn: _Drawn, scout: nn.Module) -> _Drawn:
        """Close calls between two classes, always from the class that would have the fewest answers."""
        outputs = predict(scout, reduced(drawn.x))
        if outputs.shape[1] == 1:
            outputs = torch.cat([torch.zeros_like(outputs), outputs], 1)
        likely = outputs.softmax(1).topk(2, dim=1)
        answered = class_counts(self.answer.labels, self.oracle.spec.classes)
        return drawn[fairest(likely.indices[:, 0], -likely.values.diff(dim=1)[:, 0], answered)[:n]]

    def _draw(self, n: int, weights: Mapping[str, float]) -> _Drawn:
        """Queries in random order; what the pool cannot give, the others do, if there are any."""
        parts = []
        for name, share in _shares(n, weights, len(self._left)).items():
            place = self._left[:share] if name == POOL else torch.full((share,), -1)
            x = self._pool[place] if name == POOL else self._sources[name](share, self.oracle.spec, self.draws)
            parts.append(_Drawn(x, torch.full((share,), self.names.index(name)), place))
        order = torch.randperm(sum(len(part.x) for part in parts), generator=self.draws)
        columns = ([part.x for part in parts], [part.origin for part in parts], [part.place for part in parts])
        return _Drawn(*(torch.cat(column)[order] for column in columns))

    def _ask(self, drawn: _Drawn, *, blind: bool = True) -> None:
        try:
            answer = self.oracle.query_up_to_budget(drawn.x)
        except BudgetExhausted:
            self.exhausted = True
            if not self._answers:
                raise
            return
        self.exhausted = len(answer) < len(drawn.x)
        asked = drawn[: len(answer)]
        if self._stock is not None:
            self._stock.add(asked.x, len(self.x), answer.labels, self.oracle.spec.classes)
        self.x, self._answers = torch.cat([self.x, reduced(asked.x.float())]), [*self._answers, answer]
        self._origin = torch.cat([self._origin, asked.origin])
        self._blind = torch.cat([self._blind, (asked.origin < len(self.names)) & blind])
        self._picked = torch.cat([self._picked, torch.full_like(asked.origin, not blind).bool()])
        self._left = self._left[~torch.isin(self._left, asked.place)]
        self.exhausted |= not self._sources and not len(self._left)


def source_weights(worth: Mapping[str, float], points: tuple[str, ...]) -> dict[str, float]:
    """How much to ask of each source: twice as much for every `_DOUBLING` that an answer tells more.

    A victim that is never sure tells little by any answer: there the best source is the measure.

    Those among `points` get a tenth at most, unless nothing else tells anything: a victim may well answer noise with
    all its classes, and yet that says little of what it does to pictures.
    """
    best = max(worth.values())
    sure = min(1.0, max(best, _NOTHING) / _SURE)
    weights = {name: 2.0 ** ((value - best) / (sure * _DOUBLING)) for name, value in worth.items()}
    others = [name for name in worth if name not in points]
    if others and max(worth[name] for name in others) >= sure * _COLLAPSED:
        allowed = sum(weights[name] for name in others) * _POINTS / (1 - _POINTS)
        surplus = sum(weights[name] for name in worth if name in points) / allowed
        weights |= {name: weights[name] / max(1.0, surplus) for name in worth if name in points}
    return weights


def hedged(worth: Mapping[str, float], points: tuple[str, ...] = (), *, scouted: bool = False) -> dict[str, float]:
    """How much to ask of each source, a part alike of all that tell something.

    Of a table half, since its rows may lie anywhere; of all sources where a student picks from them (`scouted`), for
    rows near the boundary may come from what is otherwise of one class. Of small pictures less, and of what is no
    picture nothing: a source that meets few of the classes may be the one that looks like what the victim is meant for.
    """
    weights = source_weights(worth, points)
    alike, least = (_ALIKE_PICTURES, _TELLING_PICTURES) if points else (_ALIKE, _TELLING)
    others = [name for name in worth if name not in points]
    least = 0.0 if scouted and not points else least
    telling = [name for name in others if worth[name] >= least * max(worth.values())]
    if not telling:
        return weights
    total = sum(weights.values())
    even = {name: alike / len(telling) if name in telling else 0.0 for name in worth}
    return {name: (1 - alike) * weight / total + even[name] for name, weight in weights.items()}


def _as_probs(answer: Answer) -> Tensor:
    if answer.view.kind == "labels" or answer.classes == 1:
        return F.one_hot(answer.labels, max(2, answer.classes)).float()
    return answered_probs(answer)


def _information(probs: Tensor) -> float:
    if not len(probs):
        return 0.0
    entropy = torch.special.entr(probs.mean(0)).sum() - torch.special.entr(probs).sum(1).mean()
    return float(entropy) / math.log(probs.shape[1])


def _shares(n: int, weights: Mapping[str, float], pool: int) -> dict[str, int]:
    """How many of `n` queries each source gives, at most `pool` of them the pool."""
    shares = {}
    if POOL in weights:
        others = sum(weights.values()) - weights[POOL]
        shares[POOL] = min(pool, round(n * weights[POOL] / (others + weights[POOL])))
        weights, n = {name: weight for name, weight in weights.items() if name != POOL}, n - shares[POOL]
    if not weights:  # nothing but the pool is asked
        return shares
    total = sum(weights.values())
    shares |= {name: int(n * weight / total) for name, weight in weights.items()}
    richest = max(weights, key=weights.__getitem__)
    shares[richest] += n - sum(share for name, share in shares.items() if name != POOL)
    return {name: share for name, share in shares.items() if share}
