"""The attacker of tables: asks where thresholds lie or its students disagree, and copies with the best of them.

A table with few rows is asked whole. Of any other, rows are drawn as rows look (`sources/tables.py`): blindly at first,
then mostly between the thresholds that two boosted students of different answers have found so far. Where only labels
are shown, most of what is asked are rows on which the two differ (`sources/committee.py`); scores tell as much of rows
far from a boundary. A share of the blind answers is held out and decides among students; the winner learns everything.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from leakmeter.data.catalogue import load
from leakmeter.errors import BudgetExhausted, Inconclusive, NotApplicable, UsageError
from leakmeter.evaluation.score import predict
from leakmeter.extraction.base import Attack, AttackJob
from leakmeter.extraction.findings import Findings, Trial, class_counts, class_entropy
from leakmeter.extraction.sources.committee import hardest
from leakmeter.extraction.sources.published import published
from leakmeter.extraction.sources.tables import amounts, as_rows, beside_thresholds, every_row, table_of
from leakmeter.extraction.students import STUDENTS, Lesson, kernel
from leakmeter.extraction.students.mean import Mean
from leakmeter.extraction.students.reading import Reading, readings
from leakmeter.models.trees.ensemble import TreeEnsemble
from leakmeter.oracle.answer import Answer, to_labels
from leakmeter.oracle.oracle import Oracle
from leakmeter.oracle.view import View
from leakmeter.seeds import derive, stream
from leakmeter.victims.spec import VictimSpec

_UNIFORM = 1 / 3  # of the blind rows are uniform
_GROWTH = 1.5  # answers are looked at again when there are so many times as many
_FIRST = 48  # answers that are all asked blindly
_FEWEST = 10  # answers to learn from
_SEARCHED = 9  # students are compared anew when answers have multiplied so much
_ERRORS = 2.0  # standard errors by which labels must be better where scores are shown
_MEMBER, _TRIAL, _COPY, _LAST = 0.25, 0.4, 1.5, 4.0  # seconds for a member, a student on trial, a copy, the last copy
_KERNEL = "kernel"  # the student that takes its time, on trial too
_CELLS, _MOST_CELLS = "cells", 100_000  # the student of a table asked whole, and how many rows that may be

_Way = tuple[str, Reading]
"""A student and what it reads of answers."""


class Tabular(Attack):
    """Adaptive questions to a model of a table, and the student that suits it."""

    reads_explanations: ClassVar[bool] = True

    students: tuple[str, ...] = ("boosted", "bagged", "dense", "linear", "kernel")
    """What to try as the copy."""
    pool: str | Tensor | None = None
    """Rows the attacker has: a table's path (its train split), or a tensor; None: none."""
    adaptive: bool = True
    """Whether questions are chosen; False: all are drawn blindly."""
    blind: float | None = Field(default=None, gt=0, le=1)
    """The share of the questions that is drawn blindly; None: all where scores are shown, a quarter of the others."""
    choice: int = Field(default=8, ge=2)
    """Rows to choose from for each question."""
    held_out: float = Field(default=0.2, gt=0, lt=0.5)
    """The share of the blind answers that decides among students."""
    effort: float = Field(default=1.0, gt=0)
    """Scales the time spent on learning."""

    @classmethod
    def reads(cls, view: str) -> bool:
        """Shapley values only, whole and beside all scores: they add up to these."""
        base, _, explanation = view.partition("+")
        return base.startswith(("probs", "logits")) and explanation.startswith("shap") and "/" not in explanation

    def check(self, spec: VictimSpec, view: View) -> None:
        """Refuses whatever is no table with a range for every column."""
        super().check(spec, view)
        if table_of(spec) is None:
            raise NotApplicable("'tabular' needs a table with a range for every column; give low and high or [columns]")

    def expected_seconds(self, spec: VictimSpec, stops: tuple[int, ...]) -> float:
        """Of learning: members, trials and copies; more for a table of many columns."""
        rounds = math.log(max(stops[-1], _FIRST) / _FIRST) / math.log(_GROWTH) if self.adaptive else 0
        searches = 1 + math.log(max(stops[-1], _SEARCHED)) / math.log(_SEARCHED)
        trials = searches * (len(self.students) + 2) * _TRIAL
        learning = (2 * rounds * _MEMBER + trials + _COPY * (len(stops) - 1) + _LAST) * (1 + spec.features / 50)
        if _KERNEL in self.students and STUDENTS[_KERNEL].suits(spec):
            learning += sum(kernel.seconds(spec.features, stop) for stop in (*stops, stops[-1]))
        return self.effort * learning

    def run(self, oracle: Oracle, job: AttackJob) -> tuple[nn.Module, Findings]:
        """At each stop a fresh copy from everything asked up to there."""
        if not job.stops:
            raise UsageError("the attack 'tabular' needs an end; give the oracle a budget")
        return _Campaign(self, oracle, job).play()


class _Campaign:
    def __init__(self, attack: Tabular, oracle: Oracle, job: AttackJob) -> None:
        self.attack, self.oracle, self.job, self.spec = attack, oracle, job, oracle.spec
        self.draws = stream(job.seed, "tabular")
        self.share = attack.blind or (0.25 if oracle.view.kind == "labels" else 1.0)
        self.x = torch.empty(0, oracle.spec.features)
        self.answers: list[Answer] = []
        self.blind = torch.empty(0, dtype=torch.bool)
        self.exhausted = False
        self.members: list[TreeEnsemble] = []
        self.trials: list[Trial] = []
        self.best: list[_Way] = []
        self.searched = 0
        """How many answers there were when all students were last compared."""
        self.cells = self._mixed(every_row(oracle.spec, min(job.stops[-1], _MOST_CELLS)))
        self.pool = self._mixed(_pool(attack, oracle.spec))

    def play(self) -> tuple[nn.Module, Findings]:
        copy: nn.Module | None = None
        for stop in self.job.stops:
            self._ask_up_to(stop)
            copy = self._copy(stop)
            self.job.observe(copy, len(self.x))
            if self.exhausted or self._whole:
                break
        assert copy is not None
        self.job.show_queries(self.x[torch.randperm(len(self.x), generator=self.draws)])
        counts = class_counts(self.answer.labels, self.spec.classes)
        name = "trees" if isinstance(copy, TreeEnsemble) else None
        entropy = class_entropy(counts)
        return copy, Findings(class_entropy=entropy, student=name, tried=tuple(self.trials), all_asked=self._whole)

    @property
    def answer(self) -> Answer:
        return Answer.join(self.answers)

    @property
    def _whole(self) -> bool:
        """Whether every row there is has been asked."""
        return self.cells is not None and len(self.x) >= len(self.cells)

    def _mixed(self, rows: Tensor | None) -> Tensor | None:
        return None if rows is None else rows[torch.randperm(len(rows), generator=self.draws)]

    def _ask_up_to(self, stop: int) -> None:
        while len(self.x) < stop and not self.exhausted and not self._whole:
            known = len(self.x)
            if self.cells is not None:
                self._ask(self.cells[known:stop], blind=True)
            elif known < _FIRST or not self.attack.adaptive:
                self._ask(self._draw(min(stop, max(_FIRST, 2 * known)) - known), blind=True)
            else:
                self._ask_some(min(stop, math.ceil(known * _GROWTH)) - known)

    def _ask_some(self, n: int) -> None:
        """A round: some blind questions, and those that are hardest for the students of what was answered before."""
        self.members = [self._member(number) for number in range(2)]
        blind = math.ceil(self.share * n)
        self._ask(self._draw(blind), blind=True)
        if n > blind and not self.exhausted:
            many = (n - blind) * self.attack.choice
            own = published(many, self.spec, self.draws)
            if self.pool is not None:  # those looked at go to the back, so that few are asked twice
                own, self.pool = self.pool[:many], torch.cat([self.pool[many:], self.pool[:many]])
            self._ask(hardest(n - blind, many, self.spec, self.draws, self.members, own), blind=False)

    def _ask(self, rows: Tensor, *, blind: bool) -> None:
        try:
            answer = self.oracle.query_up_to_budget(rows)
        except BudgetExhausted:
            self.exhausted = True
            if not self.answers:
                raise
            return
        self.exhausted = len(answer) < len(rows)
        self.x, self.answers = torch.cat([self.x, rows[: len(answer)]]), [*self.answers, answer]
        self.blind = torch.cat([self.blind, torch.full((len(answer),), blind)])

    def _draw(self, n: int) -> Tensor:
        """Rows of the attacker's own while there are any; else as rows look, some of them between thresholds."""
        own = torch.empty(0, self.spec.features)
        if self.pool is not None:
            share = n if self.attack.adaptive else math.ceil(n / 2)
            own, self.pool = self.pool[:share], self.pool[share:]
        left = n - len(own)
        parts = [own]
        if left > 1 and (likely := published(left // 2, self.spec, self.draws)) is not None:
            parts.append(likely)
            left -= len(likely)
        uniform = round(left * _UNIFORM)
        if uniform:
            parts.append(as_rows(self.spec.sample(uniform, self.draws), self.spec))
        if left > uniform and self.members:
            parts.append(beside_thresholds(left - uniform, self.spec, self.draws, self.members))
        elif left > uniform:
            parts.append(amounts(left - uniform, self.spec, self.draws))
        return torch.cat(parts)[torch.randperm(n, generator=self.draws)]

    def _member(self, number: int) -> TreeEnsemble:
        """A boosted student of four fifths of the answers."""
        order = torch.randperm(len(self.x), generator=self.draws)
        some = order[: math.ceil(0.8 * len(order))]
        made = self._fit(("boosted", self._readings[0]), some, f"member-{len(self.x)}-{number}", _MEMBER)
        assert isinstance(made, TreeEnsemble)
        return made

    def _copy(self, stop: int) -> nn.Module:
        """The student that agrees best with blind answers it did not learn, from all answers."""
        everything, last = torch.arange(len(self.x)), stop == self.job.stops[-1] or self.exhausted
        if self._whole:
            self.trials = [Trial(name=f"{_CELLS}, {self._readings[0]}", held_out=1.0, chosen=True)]
            return self._fit((_CELLS, self._readings[0]), everything, f"copy-{stop}", _LAST)
        if last or not self.searched or len(self.x) >= _SEARCHED * self.searched:
            self._search(stop)
        seconds = (_LAST if last else _COPY) / len(self.best)
        made = [self._fit(way, everything, f"copy-{stop}-{i}", seconds) for i, way in enumerate(self.best)]
        return made[0] if len(made) == 1 else Mean(made)

    def _search(self, stop: int) -> None:
        """Compares all students, and the mean of the two best, on answers held out; with too few answers, none."""
        if len(self.x) < _FEWEST:
            self.best = self._ways[:1] or [(_KERNEL, self._readings[0])]
            self.trials = [Trial(name=_named(self.best), held_out=0.0, chosen=True)]
            return
        rows = self.blind.nonzero()[:, 0]
        rows = rows[torch.randperm(len(rows), generator=stream(self.job.seed, "held out", stop))]
        held = rows[: max(1, round(self.attack.held_out * len(rows)))]
        learned = torch.ones(len(self.x), dtype=torch.bool).index_fill_(0, held, False).nonzero()[:, 0]
        found = self._tried(self._ways, learned, stop)
        scores = self._scores(found, held)
        if _KERNEL in self._names:  # it reads what the best boosted one reads
            reading = next((ways[0][1] for _, ways in scores if ways[0][0] == "boosted"), self._readings[0])
            found |= self._tried([(_KERNEL, reading)], learned, stop)
            scores = self._scores(found, held)
        if not scores:
            raise Inconclusive("every student of the table diverged")
        first = scores[0][1][0]
        second = next((ways[0] for _, ways in scores if ways[0][0] != first[0]), None)
        self.best = [first]
        if second is not None:
            both = self._agreement([found[first], found[second]], held)
            scores.append((both, [first, second]))
            if both >= scores[0][0] - _error(both, len(held)):  # within an error the mean is steadier
                self.best = [first, second]
        self.searched = len(self.x)
        self.trials = [Trial(name=_named(ways), held_out=a, chosen=ways == self.best) for a, ways in scores]

    def _tried(self, ways: list[_Way], learned: Tensor, stop: int) -> dict[_Way, nn.Module]:
        """What each of them made of the answers it learned, but for those that diverged."""
        found = {}
        for way in ways:
            with suppress(Inconclusive):
                found[way] = self._fit(way, learned, f"trial-{stop}-{way[0]}-{way[1]}", _TRIAL)
        return found

    def _scores(self, found: dict[_Way, nn.Module], held: Tensor) -> list[tuple[float, list[_Way]]]:
        """How well each agrees with the answers held out, the best first; labels only if surely better than scores."""
        scores = [(self._agreement([model], held), [way]) for way, model in found.items()]
        luck = max((_error(agreed, len(held)) for agreed, _ in scores), default=0.0)
        less = {way: _ERRORS * luck * (way[1] == "labels" != self._readings[0]) for way in found}
        return sorted(scores, key=lambda each: less[each[1][0]] - each[0])

    def _agreement(self, models: list[nn.Module], held: Tensor) -> float:
        model = models[0] if len(models) == 1 else Mean(models)
        same = to_labels(predict(model, self.x[held])) == self.answer.labels[held]
        return float(same.double().mean())

    @property
    def _readings(self) -> tuple[Reading, ...]:
        return readings(self.oracle.view, self.spec.classes)

    @property
    def _ways(self) -> list[_Way]:
        """All but the kernel."""
        names = [name for name in self._names if name != _KERNEL]
        return [(name, way) for name in names for way in (self._readings if name == "boosted" else self._readings[:1])]

    @property
    def _names(self) -> list[str]:
        return [name for name in self.attack.students if STUDENTS[name].suits(self.spec)]

    def _fit(self, way: _Way, rows: Tensor, name: str, seconds: float) -> nn.Module:
        answer, (student, reading) = self.answer, way
        some = replace(answer, columns={key: column[rows] for key, column in answer.columns.items()})
        seed = derive(self.job.seed, "tabular", name)
        if student == _KERNEL:
            seconds = kernel.seconds(self.spec.features, len(rows))
        lesson = Lesson(
            self.x[rows], some, reading, "none", self.spec, self.job, seed, name, seconds * self.attack.effort
        )
        return STUDENTS[student].fit(lesson)


def _error(agreement: float, answers: int) -> float:
    """The standard error of an agreement on so many answers."""
    return math.sqrt(agreement * (1 - agreement) / answers)


def _named(ways: list[_Way]) -> str:
    return " + ".join(f"{student}, {reading}" for student, reading in ways)


def _pool(attack: Tabular, spec: VictimSpec) -> Tensor | None:
    if attack.pool is None or isinstance(attack.pool, Tensor):
        return attack.pool
    return load(attack.pool, "train", columns=spec.columns).x
