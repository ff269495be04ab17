"""The attacker who chooses: sources, students, readings and augmentations, by its own answers and nothing else.

1. **Ask.** Every source of queries is tried a little; the rest comes from those whose answers tell most
   (`sources/asking.py`). Where answers are coarse, in rounds: the best student so far picks what it finds hardest.
2. **Choose.** A share of the answers is held out. Students learn the others, and the one that agrees most often with
   the held-out labels wins; then ways to read an answer, then augmentations. Whatever a view shows, one way to read it
   is its label alone: whoever sees more, or sees what a defense spoiled, can do as well as who sees less.
3. **Copy.** The winner learns all answers; where these are coarse, two of it do and the copy is their mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Protocol

import torch
from pydantic import Field
from torch import Tensor, nn

from leakmeter.errors import Inconclusive, UsageError
from leakmeter.evaluation.score import predict
from leakmeter.extraction.base import Attack, AttackJob
from leakmeter.extraction.findings import Findings, Trial, class_counts, class_entropy
from leakmeter.extraction.pool import real_inputs
from leakmeter.extraction.sources import usual_sources
from leakmeter.extraction.sources.asking import Asker
from leakmeter.extraction.students import STUDENTS, Lesson, usual_students
from leakmeter.extraction.students.augment import Augmentation, augmentations
from leakmeter.extraction.students.mean import Mean
from leakmeter.extraction.students.reading import Reading, readings
from leakmeter.extraction.tabular import Tabular
from leakmeter.oracle.answer import Answer, to_labels
from leakmeter.oracle.oracle import Oracle
from leakmeter.seeds import derive, stream
from leakmeter.victims.spec import VictimSpec


class Auto(Attack):
    """Tries, compares on answers held out, and copies with what came out best."""

    single_score: ClassVar[bool] = True

    pool: str | Tensor | None = None
    """Public data to ask beside what code draws: a dataset's name or path (its train split), or a tensor."""
    data_dir: Path | None = None
    sources: tuple[str, ...] | None = None
    """Where other queries come from; None: all that need no data; (): nothing but the pool is asked."""
    students: tuple[str, ...] | None = None
    """What to try as the copy; None: all that suit the input."""
    effort: float = Field(default=1.0, gt=0)
    """Scales the time spent on learning; 1: some seconds for 64 features, some minutes for a colour picture."""
    held_out: float = Field(default=0.15, gt=0, lt=0.5)
    """The share of the answers that decides."""
    rounds: int = Field(default=4, ge=1)
    """Rounds in which queries are asked where answers are coarse: each but the first is chosen by a student."""

    def seconds_for(self, n: int, spec: VictimSpec) -> float:
        """What a copy from `n` answers is worth: more for larger inputs and for more answers."""
        each = 0.08 if spec.features <= _SMALL else 0.13
        size, known = min(max(each * spec.features, 20), 400), min(max(n / 5000, 0.02), 10)
        return self.effort * size * math.sqrt(known)

    def expected_seconds(self, spec: VictimSpec, stops: tuple[int, ...]) -> float | None:
        """Of learning, with the trials before each copy."""
        if spec.columns is not None:
            return self._tabular().expected_seconds(spec, stops)
        seconds, searched = 0.0, 0
        for stop in (stop for stop in stops if stop >= _LEAST):
            all_of_them = len(self.students or usual_students(spec)) + 3
            trials = all_of_them if stop >= _MULTIPLIED * searched else _AGAIN
            searched = stop if trials == all_of_them else searched
            seconds += self.seconds_for(stop, spec) * (1 + trials / _trials(spec))
        return seconds

    def run(self, oracle: Oracle, job: AttackJob) -> tuple[nn.Module, Findings]:
        """At each stop a fresh copy from everything asked up to there."""
        if not job.stops:
            raise UsageError("the attack 'auto' needs an end; give the oracle a budget")
        if self.sources == () and self.pool is None:
            raise UsageError("the attack 'auto' needs something to ask; give it a pool, or leave sources out")
        if oracle.spec.columns is not None:
            return self._tabular().run(oracle, job)
        return _Thief(self, oracle, job).play()

    def _tabular(self) -> Tabular:
        """Tables have questions and students of their own, chosen in the same way."""
        students = {} if self.students is None else {"students": self.students}
        return Tabular(pool=self.pool, effort=self.effort, **students)


@dataclass(frozen=True)
class Candidate:
    """One way to make a copy."""

    student: str
    reading: Reading
    augmentation: Augmentation

    def __str__(self) -> str:
        return f"{self.student}, {self.reading}" + ("" if self.augmentation == "none" else f", {self.augmentation}")


@dataclass(frozen=True, eq=False)
class _Trial:
    """How often candidates that learned the other answers agreed, in the mean, with those held out."""

    candidates: tuple[Candidate, ...]
    held_out: float
    model: nn.Module

    def __str__(self) -> str:
        return " + ".join(map(str, self.candidates))


class Answered(Protocol):
    """Queries and what was answered to them."""

    @property
    def x(self) -> Tensor:
        """All queries."""

    @property
    def answer(self) -> Answer:
        """All answers."""

    def plausible(self) -> Tensor:
        """Rows that may be held out: those most like what the victim is meant for."""


class Chooser:
    """Compares candidates on answers held out, and copies with the best, whoever asked for them."""

    def __init__(self, attack: Auto, spec: VictimSpec, job: AttackJob, asker: Answered) -> None:
        self.attack, self.job, self.spec, self.asker = attack, job, spec, asker
        self.ranking: list[_Trial] = []
        self.searched = 0
        """How many answers there were when all candidates were last compared."""
        self.tried: dict[str, float] = {}

    def copied(self, name: str) -> nn.Module:
        """A copy from all answers there are."""
        return self._copy(self._best(name), name)

    def compared(self, name: str) -> dict[tuple[Candidate, ...], float]:
        """What all candidates came to on answers held out; nothing where these are too few."""
        self._best(name)
        return {trial.candidates: trial.held_out for trial in self.ranking}

    def copied_by(self, candidates: tuple[Candidate, ...], name: str) -> nn.Module:
        """A copy from all answers there are, by these."""
        return self._copy(_Trial(candidates, 0.0, Mean([])), name)

    def _coarse(self, best: _Trial) -> bool:
        """Whether answers say little more than a label: by what they show, or by what proved best to read of them."""
        return best.candidates[0].reading == "labels" or not self.asker.answer.view.tells_logits

    def _best(self, name: str) -> _Trial:
        """The candidate to use: all are compared anew when answers have multiplied, in between the two best of then."""
        x, rows = self.asker.x, self.asker.plausible()
        if len(x) < _LEAST:
            return self._simplest()
        rows = rows[torch.randperm(len(rows), generator=stream(self.job.seed, "held out", name))]
        held = rows[: max(1, round(self.attack.held_out * len(x)))]
        learned = torch.ones(len(x), dtype=torch.bool).index_fill_(0, held, False).nonzero()[:, 0]
        part = _Part(x, self.asker.answer, learned, held)
        if len(x) < _MULTIPLIED * self.searched:
            names = [*(self.attack.students or usual_students(self.spec))]
            again = [trial for trial in self.ranking if len(trial.candidates) == 1][:_AGAIN]
            again.sort(key=lambda trial: names.index(trial.candidates[0].student))  # the simpler first, as before
            trials = [self._try(trial.candidates[0], part, name) for trial in again]
        else:
            trials, self.searched = self._search(part, name), len(x)
        self.ranking = part.ranked([*trials, *self._both(trials, part)])
        self.tried |= {str(trial): trial.held_out for trial in self.ranking}
        return self.ranking[0]

    def _simplest(self) -> _Trial:
        """What to use where there are too few answers to hold some out."""
        way, change = readings(self.asker.answer.view, self.spec.classes)[0], augmentations(self.spec)[0]
        student = (self.attack.students or usual_students(self.spec))[0]
        return _Trial((Candidate(student, way, change),), 0.0, Mean([]))

    def _search(self, part: _Part, name: str) -> list[_Trial]:
        """Students first, then for the best of them the other ways to read answers, then the other augmentations."""
        ways, changes = readings(self.asker.answer.view, self.spec.classes), augmentations(self.spec)
        if self.spec.features > _SMALL:  # what a short trial learns first
            ways = tuple(sorted(ways, key=lambda way: way != "softened"))
        names = self.attack.students or usual_students(self.spec)
        trials = [self._try(Candidate(student, ways[0], changes[0]), part, name) for student in names]
        best = part.ranked(trials)[0].candidates[0]
        trials += [self._try(replace(best, reading=way), part, name) for way in ways[1:] if way != "labels"]
        if len(ways) > 1:
            trials += self._if_better(
                replace(part.ranked(trials)[0].candidates[0], reading="labels"), trials, part, name
            )
        for change in changes[1:]:
            best = part.ranked(trials)[0].candidates[0]
            trials += self._if_better(replace(best, augmentation=change), trials, part, name)
        return trials

    def _if_better(self, candidate: Candidate, trials: list[_Trial], part: _Part, name: str) -> list[_Trial]:
        """A trial of what learns from less, if it is clearly better than the best: short trials flatter it."""
        best, less = part.ranked(trials)[0], self._try(candidate, part, name)
        self.tried[str(less)] = less.held_out
        return [less] if less.held_out > best.held_out + _ERRORS * part.error(best.held_out) else []

    def _try(self, candidate: Candidate, part: _Part, name: str) -> _Trial:
        x, answer = part.x[part.learned], rows_of(part.answer, part.learned)
        seconds = max(self._seconds(len(x)) / _trials(self.spec), _SHORTEST * min(1.0, self.attack.effort / _LITTLE))
        try:
            model = self.fit(candidate, x, answer, f"{name}-trial", seconds)
        except Inconclusive:  # it diverged
            return _Trial((candidate,), 0.0, Mean([]))
        return _Trial((candidate,), part.agreement(model), model)

    def _both(self, trials: list[_Trial], part: _Part) -> list[_Trial]:
        """The mean of the two best that are different students, where there is time enough for two."""
        if self.spec.features > _SMALL:
            return []
        first, *others = part.ranked(trials)
        second = next((t for t in others if t.candidates[0].student != first.candidates[0].student), None)
        if second is None or second.held_out == 0:
            return []
        model = Mean([first.model, second.model]).eval()
        return [_Trial((*first.candidates, *second.candidates), part.agreement(model), model)]

    def _copy(self, best: _Trial, name: str) -> nn.Module:
        """The winner, from all answers; where these are coarse, the mean of two of it, which is steadier."""
        x, answer, members = self.asker.x, self.asker.answer, [*best.candidates]
        small = self.spec.features <= _SMALL
        if len(members) == 1 and small and self._coarse(best) and members[0].student != "linear":
            members *= 2
        seconds = self._seconds(len(x)) / len(members)
        learned = [self.fit(one, x, answer, f"{name}-copy-{i}", seconds) for i, one in enumerate(members)]
        return learned[0] if len(members) == 1 else Mean(learned)

    def fit(self, candidate: Candidate, x: Tensor, answer: Answer, name: str, seconds: float) -> nn.Module:
        """What a candidate makes of some answers in about so many seconds."""
        name = f"{name}-{candidate.student}-{candidate.reading}-{candidate.augmentation}"
        seed = derive(self.job.seed, "auto", name)
        lesson = Lesson(x, answer, candidate.reading, candidate.augmentation, self.spec, self.job, seed, name, seconds)
        return STUDENTS[candidate.student].fit(lesson)

    def _seconds(self, n: int) -> float:
        return self.attack.seconds_for(n, self.spec)


class _Thief(Chooser):
    """The attack at work."""

    asker: Asker

    def __init__(self, attack: Auto, oracle: Oracle, job: AttackJob) -> None:
        names = usual_sources(oracle.spec) if attack.sources is None else attack.sources
        pool = None if attack.pool is None else _pool(attack, oracle.spec)
        super().__init__(attack, oracle.spec, job, Asker(oracle, names, pool, stream(job.seed, "auto")))

    def play(self) -> tuple[nn.Module, Findings]:
        copy: nn.Module | None = None
        self._announce()
        for stop in self.job.stops:
            self._ask(stop)
            copy = self.copied(f"{stop}")
            self.job.observe(copy, len(self.asker.x))
            if self.asker.exhausted:
                break
        assert copy is not None
        return copy, self._findings()

    def _ask(self, stop: int) -> None:
        """Up to `stop` queries: first a few of every source, beside a pool the fewest, then by what they showed."""
        asker, sources = self.asker, len(self.asker.names)
        explored = _EXPLORED if self.attack.pool is None else 0.0
        few = min(max(_FEW * sources, round(explored * stop)), math.ceil(stop / 2))
        if len(asker.x) < few:
            asker.explore(few - len(asker.x))
        start, rounds = len(asker.x), 2 if asker.answer.view.tells_logits else self.attack.rounds
        for turn in range(rounds):
            goal = start + math.ceil((stop - start) * (turn + 1) / rounds)
            best = None if turn == 0 or len(asker.x) < _LEAST else self._best(f"{stop}-{turn}")
            asker.exploit(goal, None if best is None or not self._coarse(best) else best.model)

    def _announce(self) -> None:
        """Says before the first query about how long the learning will take."""
        seconds = self.attack.expected_seconds(self.spec, tuple(self.job.stops)) or 0.0
        self.job.notes["expected_seconds"] = round(seconds)
        self.job.progress.say(f"auto: about {max(1, round(seconds / 60))} min of learning on one core")

    def _findings(self) -> Findings:
        """What was tried and asked, for the report."""
        asker = self.asker
        told = asker.information()
        self.job.notes["sources"] = {
            name: {"queries": n, "information": told.get(name)} for name, n in asker.counts().items()
        }
        order = torch.randperm(len(asker.x), generator=stream(self.job.seed, "sheet"))
        self.job.show_queries(asker.x[order])
        chosen = str(self.ranking[0]) if self.ranking else ""
        tried = [Trial(name=name, held_out=value, chosen=name == chosen) for name, value in self.tried.items()]
        entropy = class_entropy(class_counts(asker.answer.labels, self.spec.classes))
        return Findings(class_entropy=entropy, tried=tuple(tried))


@dataclass(frozen=True, eq=False)
class _Part:
    """Answers, parted into what is learned and what is held out."""

    x: Tensor
    answer: Answer
    learned: Tensor
    held: Tensor

    def agreement(self, model: nn.Module) -> float:
        """How often a model names the class of an answer held out, each class that was answered counting the same."""
        labels = self.answer.labels[self.held]
        same = (to_labels(predict(model, self.x[self.held])) == labels).double()
        weight = 1 / labels.bincount()[labels].double()
        return float((same * weight).sum() / weight.sum())

    def ranked(self, trials: list[_Trial]) -> list[_Trial]:
        """Best first; within one standard error the one tried first, which is the simpler or the likelier."""
        return ranked(trials, self.error(max(trial.held_out for trial in trials)))

    def error(self, agreement: float) -> float:
        """The standard error of an agreement."""
        return math.sqrt(agreement * (1 - agreement) / len(self.held))


def ranked(trials: list[_Trial], error: float = 0.0) -> list[_Trial]:
    """The trials, best first; of those that differ by no more than an error from the best, the one tried first."""
    order = sorted(trials, key=lambda trial: -trial.held_out)
    first = next(trial for trial in trials if trial.held_out >= order[0].held_out - error)
    return [first, *(trial for trial in order if trial is not first)]


def _trials(spec: VictimSpec) -> int:
    """How many trials take as long as a copy."""
    return _TRIALS if spec.features <= _SMALL else _TRIALS_LARGE


def rows_of(answer: Answer, rows: Tensor) -> Answer:
    """Some rows of an answer."""
    return replace(answer, columns={name: column[rows] for name, column in answer.columns.items()})


def _pool(attack: Auto, spec: VictimSpec) -> Tensor:
    if isinstance(attack.pool, Tensor):
        return attack.pool
    assert attack.pool is not None
    return real_inputs(attack.pool, attack.data_dir, spec)


_LEAST, _MULTIPLIED = 40, 4  # answers from which some are held out; growth after which all is compared again
_FEW, _EXPLORED = 20, 0.08  # queries to try a source by: so many, or this share of the first stop
_TRIALS, _TRIALS_LARGE, _SHORTEST = 8, 12, 1.0  # a trial takes this fraction of a copy's time, some seconds at least
_SMALL = 1024  # features up to which a network has time enough to learn twice
_ERRORS = 2.0  # standard errors by which to learn from less must be better
_LITTLE = 0.2  # effort below which also these are cut
_AGAIN = 2  # candidates compared again when there are more answers
