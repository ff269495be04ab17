"""The attacker of tables: asks where its students disagree about the class, and copies with the best of them.

Rows are drawn blindly at first, as a table's rows look (`sources/tables.py`). Then, again and again, two boosted
students of different answers look at many rows, spread over the stretches between their own thresholds; those on which
they differ most for how near a boundary they are, are asked. A share of the blind answers is held out and decides among
students; the winner learns everything.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from pydantic import Field
from torch import Tensor, nn

from leakmeter.data.catalogue import load
from leakmeter.errors import BudgetExhausted, Inconclusive, NotApplicable, UsageError
from leakmeter.evaluation.score import predict
from leakmeter.extraction.base import Attack, AttackJob
from leakmeter.extraction.findings import Findings, Trial, class_counts, class_entropy
from leakmeter.extraction.sources.tables import amounts, beside_thresholds, table_of
from leakmeter.extraction.students import STUDENTS, Lesson
from leakmeter.extraction.students.reading import Reading, readings
from leakmeter.models.trees.ensemble import TreeEnsemble
from leakmeter.oracle.answer import Answer, to_labels
from leakmeter.oracle.oracle import Oracle
from leakmeter.oracle.view import View
from leakmeter.seeds import derive, stream
from leakmeter.victims.spec import VictimSpec

_UNIFORM = 0.25  # of the blind rows are uniform
_GROWTH = 1.35  # answers are looked at again when there are so many times as many
_NEAR = 0.3  # a logit below which rows count as near a boundary
_FEWEST = 10  # answers to learn from
_MEMBER, _TRIAL, _COPY = 0.8, 1.5, 6.0  # seconds for a member of the committee, a student on trial, the copy


class Tabular(Attack):
    """Adaptive questions to a model of a table, and the student that suits it."""

    students: tuple[str, ...] = ("boosted", "bagged", "dense", "linear")
    """What to try as the copy."""
    pool: str | Tensor | None = None
    """Rows the attacker has: a table's path (its train split), or a tensor; None: none."""
    adaptive: bool = True
    """Whether questions are chosen; False: all are drawn blindly."""
    blind: float = Field(default=0.2, gt=0, le=1)
    """The share of the first questions that is drawn blindly."""
    choice: int = Field(default=8, ge=2)
    """Rows to choose from for each question."""
    held_out: float = Field(default=0.2, gt=0, lt=0.5)
    """The share of the blind answers that decides among students."""
    effort: float = Field(default=1.0, gt=0)
    """Scales the time spent on learning."""

    def check(self, spec: VictimSpec, view: View) -> None:
        """Refuses whatever is no table with a range for every column."""
        super().check(spec, view)
        if table_of(spec) is None:
            raise NotApplicable("'tabular' needs a table with a range for every column; give low and high or [columns]")

    def run(self, oracle: Oracle, job: AttackJob) -> tuple[nn.Module, Findings]:
        """At each stop a fresh copy from everything asked up to there."""
        if not job.stops:
            raise UsageError("the attack 'tabular' needs an end; give the oracle a budget")
        return _Campaign(self, oracle, job).play()


class _Campaign:
    def __init__(self, attack: Tabular, oracle: Oracle, job: AttackJob) -> None:
        self.attack, self.oracle, self.job, self.spec = attack, oracle, job, oracle.spec
        self.draws = stream(job.seed, "tabular")
        self.x = torch.empty(0, oracle.spec.features)
        self.answers: list[Answer] = []
        self.blind = torch.empty(0, dtype=torch.bool)
        self.exhausted = False
        self.trials: list[Trial] = []
        pool = _pool(attack, oracle.spec)
        self.pool = None if pool is None else pool[torch.randperm(len(pool), generator=self.draws)]

    def play(self) -> tuple[nn.Module, Findings]:
        copy: nn.Module | None = None
        for stop in self.job.stops:
            self._ask_up_to(stop)
            copy = self._copy(stop)
            self.job.observe(copy, len(self.x))
            if self.exhausted:
                break
        assert copy is not None
        self.job.show_queries(self.x[torch.randperm(len(self.x), generator=self.draws)])
        counts = class_counts(self.answer.labels, self.spec.classes)
        name = "trees" if isinstance(copy, TreeEnsemble) else None
        return copy, Findings(class_entropy=class_entropy(counts), student=name, tried=tuple(self.trials))

    @property
    def answer(self) -> Answer:
        return Answer.join(self.answers)

    def _ask_up_to(self, stop: int) -> None:
        if not len(self.x):
            share = self.attack.blind if self.attack.adaptive else 1.0
            self._ask(self._draw(max(min(stop, 50), math.ceil(share * stop))), blind=True)
        while len(self.x) < stop and not self.exhausted:
            goal = min(stop, math.ceil(len(self.x) * _GROWTH))
            rows = self._chosen(goal - len(self.x)) if self.attack.adaptive else self._draw(goal - len(self.x))
            self._ask(rows, blind=not self.attack.adaptive)

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
        """Rows of the attacker's own while there are any, half of them at most; else as rows look."""
        own = torch.empty(0, self.spec.features)
        if self.pool is not None:
            own, self.pool = self.pool[: math.ceil(n / 2)], self.pool[math.ceil(n / 2) :]
        uniform = round((n - len(own)) * _UNIFORM)
        parts = [own, self.spec.sample(uniform, self.draws).float()] if uniform else [own]
        if n - len(own) - uniform:
            parts.append(amounts(n - len(own) - uniform, self.spec, self.draws))
        return torch.cat(parts)[torch.randperm(n, generator=self.draws)]

    def _chosen(self, n: int) -> Tensor:
        """The rows on which the committee differs most for how near a boundary they are, not without luck."""
        members = [self._member(number) for number in range(2)]
        many = n * self.attack.choice
        rows = [beside_thresholds(many * 3 // 4, self.spec, self.draws, members), self._draw(many - many * 3 // 4)]
        candidates = torch.cat(rows)
        outputs = torch.stack([_centred(predict(member, candidates)) for member in members])
        top = outputs.mean(0).topk(2, dim=1).values
        worth = outputs.std(0).mean(1) / (top[:, 0] - top[:, 1] + _NEAR)
        luck = torch.empty(len(worth), dtype=worth.dtype).exponential_(generator=self.draws)
        return candidates[(worth * luck).argsort(descending=True, stable=True)[:n]]

    def _member(self, number: int) -> TreeEnsemble:
        """A boosted student of four fifths of the answers."""
        order = torch.randperm(len(self.x), generator=self.draws)
        some = order[: math.ceil(0.8 * len(order))]
        reading = readings(self.oracle.view, self.spec.classes)[0]
        made = self._fit("boosted", reading, some, f"member-{len(self.x)}-{number}", _MEMBER)
        assert isinstance(made, TreeEnsemble)
        return made

    def _copy(self, stop: int) -> nn.Module:
        """The student that agrees best with blind answers it did not learn, from all answers."""
        rows = self.blind.nonzero()[:, 0]
        rows = rows[torch.randperm(len(rows), generator=stream(self.job.seed, "held out", stop))]
        held = rows[: max(1, round(self.attack.held_out * len(rows)))]
        learned = torch.ones(len(self.x), dtype=torch.bool).index_fill_(0, held, False).nonzero()[:, 0]
        if len(learned) < _FEWEST:  # too few to hold any back
            learned = torch.arange(len(self.x))
        best, highest, trials = ("boosted", readings(self.oracle.view, self.spec.classes)[0]), -1.0, []
        for student, reading in self._candidates():
            agreed = self._agreement(student, reading, learned, held, stop)
            trials.append((student, reading, agreed))
            if agreed > highest:
                best, highest = (student, reading), agreed
        self.trials = [Trial(name=f"{s}, {r}", held_out=a, chosen=(s, r) == best) for s, r, a in trials]
        return self._fit(*best, torch.arange(len(self.x)), f"copy-{stop}", _COPY)

    def _candidates(self) -> list[tuple[str, Reading]]:
        ways = readings(self.oracle.view, self.spec.classes)
        names = [name for name in self.attack.students if STUDENTS[name].suits(self.spec)]
        return [(name, way) for name in names for way in (ways if name == "boosted" else ways[:1])]

    def _agreement(self, student: str, reading: Reading, learned: Tensor, held: Tensor, stop: int) -> float:
        try:
            model = self._fit(student, reading, learned, f"trial-{stop}-{student}-{reading}", _TRIAL)
        except Inconclusive:  # it diverged
            return 0.0
        same = to_labels(predict(model, self.x[held])) == self.answer.labels[held]
        return float(same.double().mean())

    def _fit(self, student: str, reading: Reading, rows: Tensor, name: str, seconds: float) -> nn.Module:
        answer = self.answer
        some = replace(answer, columns={key: column[rows] for key, column in answer.columns.items()})
        seed = derive(self.job.seed, "tabular", name)
        x, seconds = self.x[rows], seconds * self.attack.effort
        return STUDENTS[student].fit(Lesson(x, some, reading, "none", self.spec, self.job, seed, name, seconds))


def _centred(outputs: Tensor) -> Tensor:
    """Scores of all classes, less their mean; one score stands for two classes."""
    if outputs.shape[1] == 1:
        outputs = torch.cat([torch.zeros_like(outputs), outputs], 1)
    return outputs.clamp(-20, 20) - outputs.clamp(-20, 20).mean(1, keepdim=True)


def _pool(attack: Tabular, spec: VictimSpec) -> Tensor | None:
    if attack.pool is None or isinstance(attack.pool, Tensor):
        return attack.pool
    return load(attack.pool, "train", columns=spec.columns).x
