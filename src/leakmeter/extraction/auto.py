"""The attacker who chooses: sources, students, readings and augmentations, by its own answers and nothing else.

1. **Ask.** Every source of queries is tried a little; the rest comes from those whose answers tell most
   (`sources/asking.py`). Of rows, and where answers are coarse or name few of the classes, in rounds: the best student
   so far picks what it finds hardest.
2. **Choose.** A share of the answers is held out. Students learn the others, and the one that agrees most often with
   the held-out labels wins; then ways to read an answer, then augmentations. Whatever a view shows, one way to read it
   is its label alone: whoever sees more, or sees what a defense spoiled, can do as well as who sees less.
3. **Copy.** The winner learns all answers; of small inputs several of it do, and the copy is their mean.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from leakmeter.errors import UsageError
from leakmeter.extraction.base import Attack, AttackJob
from leakmeter.extraction.chooser import LEAST, Chooser
from leakmeter.extraction.durations import SMALL, first_seconds, growth, in_a_hurry, longer_seconds, trial_seconds
from leakmeter.extraction.findings import Findings, Trial, class_counts, class_entropy
from leakmeter.extraction.pace import pace
from leakmeter.extraction.pictured import AsPicture, PicturedOracle, pictured
from leakmeter.extraction.pool import real_inputs
from leakmeter.extraction.sources import usual_sources
from leakmeter.extraction.sources.asking import Asker
from leakmeter.extraction.students import STUDENTS, usual_students
from leakmeter.extraction.students.reduced import reduced_spec
from leakmeter.extraction.tabular import Tabular
from leakmeter.extraction.trials import AGAIN
from leakmeter.oracle.oracle import Oracle
from leakmeter.seeds import stream
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
    """Rounds of asking rows, or where answers are coarse or name few classes: a student chooses all but the first."""

    def seconds_for(self, n: int, spec: VictimSpec) -> float:
        """What a copy from `n` answers is worth: more for larger inputs and for more answers.

        A small picture is given time for some hundred steps whatever the effort: with fewer, no choice is a good one.
        From 5,000 answers on every one of them is looked at as often.
        """
        each, least = (0.1, 40) if spec.features <= SMALL else (0.13, 20)
        size, known = min(max(each * spec.features, least), 400), min(max(n / 5000, 0.02), 10)
        many = known > 1 and len(spec.input_shape) == 3 and spec.features <= SMALL
        return max(self.effort * size * (known if many else math.sqrt(known)), first_seconds(n, spec))

    def expected_seconds(self, spec: VictimSpec, stops: tuple[int, ...]) -> float | None:
        """Of learning, with the trials between rounds of asking and before each copy."""
        if spec.columns is not None:
            return self._tabular().expected_seconds(spec, stops)
        students = self.students or {*usual_students(reduced_spec(pictured(spec))), *usual_students(spec)}
        spec = reduced_spec(spec)
        seconds, searched, before = 0.0, 0.0, 0
        least, others = (_LEAST_LARGE, _OTHERS_LARGE) if spec.features > SMALL else (0.0, _OTHERS)
        for stop in stops:
            hurried = in_a_hurry(self.seconds_for(stop, spec), spec, stop)
            most = min(self.rounds, _ROUNDS_HURRIED) if hurried else self.rounds
            rounds = math.ceil((most + 1) / 2)  # of coarse answers so many, of exact ones one
            for n in (before + (stop - before) * turn / rounds for turn in range(1, rounds + 1)):
                if n >= LEAST:
                    all_anew = n >= growth(last=n >= stops[-1]) * searched
                    trials = _TRIALS_HURRIED if hurried else AGAIN if not all_anew else len(students) + others
                    searched = n if all_anew else searched
                    trial = trial_seconds(self.seconds_for(round(n), spec), self.effort, spec, round(n))
                    seconds += trials * max((1.0 if hurried else _TAKEN) * trial, least)
                    if all_anew and not hurried and first_seconds(stop, spec):  # what learns slower is given time
                        seconds += 2 * longer_seconds(self.seconds_for(round(n), spec), trial)
            if stop >= LEAST and not (hurried and stop < stops[-1]):
                seconds += max(self.seconds_for(stop, spec), least)
            before = stop
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


class _Thief(Chooser):
    """The attack at work."""

    attack: Auto
    asker: Asker

    def __init__(self, attack: Auto, oracle: Oracle, job: AttackJob) -> None:
        spec = pictured(oracle.spec)
        names = usual_sources(spec) if attack.sources is None else attack.sources
        pool = None if attack.pool is None else _pool(attack, oracle.spec).reshape(-1, *spec.input_shape)
        asker = Asker(
            PicturedOracle(oracle, spec), names, pool, stream(job.seed, "auto"), guessed=spec is not oracle.spec
        )
        super().__init__(attack, spec, job, asker, others=() if spec is oracle.spec else usual_students(oracle.spec))
        self._shape = None if spec is oracle.spec else spec.input_shape

    def play(self) -> tuple[nn.Module, Findings]:
        copy: nn.Module | None = None
        self._announce()
        for stop in self.job.stops:
            self._ask(stop)
            copy = self.copied(f"{stop}")
            copy = copy if self._shape is None else AsPicture(self._shape, copy)
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
        rows = len(self.spec.input_shape) != 3  # of a table thresholds are found near the boundary
        blind = asker.answer.view.tells_logits and not self._lopsided() and not rows
        most = min(self.attack.rounds, _ROUNDS_HURRIED) if self.hurried() else self.attack.rounds
        start, rounds = len(asker.x), 1 if blind else most
        for turn in range(rounds):
            goal = start + math.ceil((stop - start) * (turn + 1) / rounds)
            best = None if turn == 0 or len(asker.x) < LEAST else self.best(f"{stop}-{turn}")
            chosen = best is not None and (rows or self.coarse(best) or self._lopsided())
            asker.exploit(goal, best.model if best is not None and chosen else None, self._useless())

    def _useless(self) -> tuple[str, ...]:
        """Sources that tell nothing of such a victim: what trees learn best has its thresholds between the corners."""
        stepped = self.ranking and not STUDENTS[self.ranking[0].candidates[0].student].differentiable
        return ("corners",) if stepped else ()

    def _lopsided(self) -> bool:
        """Whether answers name few of the classes: exact ones tell as much anywhere, but nothing of classes not met."""
        counts = class_counts(self.asker.answer.labels, self.spec.classes)
        return (class_entropy(counts) or 0.0) < _LOPSIDED

    def _announce(self) -> None:
        """Says before the first query about how long the learning will take."""
        seconds = self.attack.expected_seconds(self.victim, tuple(self.job.stops)) or 0.0
        self.job.notes["expected_seconds"] = round(seconds)
        here = seconds if seconds < _WORTH_TIMING else seconds * pace(self.victim, str(self.job.device))
        self.job.progress.say(f"auto: about {max(1, round(here / 60))} min of learning on one core")

    def _findings(self) -> Findings:
        """What was tried and asked, for the report."""
        asker = self.asker
        told = asker.information()
        self.job.notes["sources"] = {
            name: {"queries": n, "information": told.get(name)} for name, n in asker.counts().items()
        }
        pictures = asker.pictures
        self.job.show_queries(pictures[torch.randperm(len(pictures), generator=stream(self.job.seed, "sheet"))])
        tried = [Trial(name=name, held_out=value, chosen=name in self.chosen) for name, value in self.tried.items()]
        entropy = class_entropy(class_counts(asker.answer.labels, self.spec.classes))
        return Findings(class_entropy=entropy, tried=tuple(tried))


def _pool(attack: Auto, spec: VictimSpec) -> Tensor:
    if isinstance(attack.pool, Tensor):
        return attack.pool
    assert attack.pool is not None
    return real_inputs(attack.pool, attack.data_dir, spec)


_FEW, _EXPLORED = 20, 0.08  # queries to try a source by: so many, or this share of the first stop
_TRIALS_HURRIED = 2.2  # of a network's first steps: the others are light
_ROUNDS_HURRIED = 2  # of asking at most, where a network's first steps are all there is time for
_WORTH_TIMING = 30  # seconds of learning from which a few steps are timed first
_LOPSIDED = 0.75  # of the entropy of classes that all come up as often
_OTHERS, _OTHERS_LARGE = 3, 3  # trials beside those of the students: of readings and augmentations
_TAKEN = 0.6  # of the time that a trial is given: some students are solved, not trained
_LEAST_LARGE = 0.6  # seconds that the fewest steps of a student take, of a colour picture
