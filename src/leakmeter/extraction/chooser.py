"""Which copy to make of given answers: candidates learn most of them and are compared on the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor, nn

from leakmeter.errors import Inconclusive
from leakmeter.extraction.base import AttackJob
from leakmeter.extraction.durations import SMALL, first_seconds, growth, in_a_hurry, longer_seconds, trial_seconds
from leakmeter.extraction.joined import ERRORS, LOST, MEMBERS, means, sees, with_other_kinds, with_seeing
from leakmeter.extraction.students import STUDENTS, Lesson, told_apart, usual_students
from leakmeter.extraction.students.augment import augmentations
from leakmeter.extraction.students.mean import Mean
from leakmeter.extraction.students.reading import Reading, readings
from leakmeter.extraction.students.reduced import reduced_spec, whole
from leakmeter.extraction.trials import Candidate, Parted, Tried, close
from leakmeter.oracle.answer import Answer
from leakmeter.seeds import derive, stream
from leakmeter.victims.spec import VictimSpec


class Answered(Protocol):
    """Queries and what was answered to them."""

    @property
    def x(self) -> Tensor:
        """All queries, as students see them."""

    @property
    def answer(self) -> Answer:
        """All answers."""

    def plausible(self) -> Tensor:
        """Rows that may be held out: those most like what the victim is meant for."""


class Settings(Protocol):
    """What an attack says of how to choose: see `Auto`, which has all of it."""

    @property
    def students(self) -> tuple[str, ...] | None:
        """What to try as the copy; None: all that suit the input."""

    @property
    def effort(self) -> float:
        """Scales the time spent on learning."""

    @property
    def held_out(self) -> float:
        """The share of the answers that decides."""

    def seconds_for(self, n: int, spec: VictimSpec) -> float:
        """What a copy from `n` answers is worth."""


class Chooser:
    """Compares candidates on answers held out, and copies with the best, whoever asked for them.

    Of large pictures the asker holds what students see, reduced; a copy takes the victim's own.
    """

    def __init__(
        self, attack: Settings, spec: VictimSpec, job: AttackJob, asker: Answered, others: tuple[str, ...] = ()
    ) -> None:
        self.attack, self.job, self.asker = attack, job, asker
        self.victim, self.spec = spec, reduced_spec(spec)
        self.students = attack.students or tuple(dict.fromkeys((*usual_students(self.spec), *others)))
        self.pictures = len(self.spec.input_shape) == 3 and not others
        self.ranking: list[Tried] = []
        self.part: Parted | None = None
        """The answers by which they were ranked."""
        self.searched = 0
        """How many answers there were when all candidates were last compared."""
        self.doubt = 0.0
        """By how much candidates had to differ when they were last compared, for chance not to decide."""
        self.near = 0.0
        """How far below the best a candidate may lie and still be as good for all that these answers tell."""
        self.tried: dict[str, float] = {}
        self.chosen: tuple[str, ...] = ()
        """Which of these made the last copy."""

    def copied(self, name: str) -> nn.Module:
        """A copy from all answers there are."""
        made = self._hedged(self.best(name))
        self.chosen = (str(made),) if str(made) in self.tried else tuple(map(str, made.candidates))
        return self._whole(made, name)

    def compared(self, name: str) -> dict[tuple[Candidate, ...], float]:
        """What all candidates came to on answers held out; nothing where these are too few."""
        self.best(name)
        return {trial.candidates: trial.held_out for trial in self.ranking}

    def copied_by(self, candidates: tuple[Candidate, ...], name: str) -> nn.Module:
        """A copy from all answers there are, by these."""
        return self._whole(Tried(candidates, 0.0, Mean([])), name)

    def _whole(self, best: Tried, name: str) -> nn.Module:
        return whole(self._copy(best, name), self.victim)

    def _hedged(self, best: Tried) -> Tried:
        """The best, joined by others where what was held out cannot be trusted alone; larger pictures can be."""
        if self.pictures:
            return with_seeing(best, self.ranking, self.part) if self.coarse(best) else best
        near = best.held_out - self.near
        return best if self.spec.features > SMALL else with_other_kinds(best, self.ranking, self.students, near)

    def coarse(self, best: Tried) -> bool:
        """Whether answers say little more than a label: by what they show, or by what proved best to read of them."""
        return best.candidates[0].reading == "labels" or not self.asker.answer.view.tells_logits

    def best(self, name: str) -> Tried:
        """The candidate to use: all are compared anew when answers have multiplied, in between the best of then."""
        x, rows = self.asker.x, self.asker.plausible()
        if len(x) < LEAST:
            return self._simplest()
        rows = rows[torch.randperm(len(rows), generator=stream(self.job.seed, "held out", name))]
        held = rows[: max(1, min(round(self.attack.held_out * len(x)), len(rows) // 2))]
        learned = torch.ones(len(x), dtype=torch.bool).index_fill_(0, held, False).nonzero()[:, 0]
        graded = self.pictures and self.spec.classes > 1 and self.spec.features <= SMALL
        part = self.part = Parted(x, self.asker.answer, learned, held, graded=graded)
        if len(x) < growth(last=self._last()) * self.searched:
            again = close(self.ranking, self.doubt)
            if self.pictures and not any(map(sees, again)):  # what copies must not be without
                again += [one for one in self.ranking if len(one.candidates) == 1 and sees(one)][:1]
            again.sort(key=lambda one: self.students.index(one.candidates[0].student))  # the simpler first, as before
            trials = self._in_time([self._try(trial.candidates[0], part, name) for trial in again], part, name)
        else:
            trials, self.searched = self._search(part, name), len(x)
        together = [] if self.spec.features > SMALL else means(trials, part)
        trees = any(not STUDENTS[one.student].differentiable for trial in together for one in trial.candidates)
        first = self.pictures or trees  # steps and slopes mend each other
        self.ranking = part.ranked([*together, *trials] if first else [*trials, *together])
        self.tried |= {str(trial): trial.held_out for trial in self.ranking}
        if self.spec.features <= SMALL:
            self.doubt = ERRORS * part.error(self.ranking[0].held_out)
        self.near = (ERRORS if len(held) < _FEW else 1.0) * part.error(self.ranking[0].held_out)
        return self.ranking[0]

    def _last(self) -> bool:
        """Whether there are all the answers that there will be."""
        return len(self.asker.x) >= max(self.job.stops, default=0)

    def _simplest(self) -> Tried:
        """What to use where there are too few answers to hold some out."""
        way, change = self._readings()[0], augmentations(self.spec)[0]
        student = "linear" if "linear" in self.students else self.students[0]
        return Tried((Candidate(student, way, change),), 0.0, Mean([]))

    def _readings(self) -> tuple[Reading, ...]:
        view, large = self.asker.answer.view, self.spec.features > SMALL
        return readings(view, self.spec.classes, pictures=self.pictures, large=large)

    def _search(self, part: Parted, name: str) -> list[Tried]:
        """Students first, then for the best of them other ways to read answers, then the other augmentations.

        Where time is short, scores of a picture are learned as it is: changes of it teach more only in the long run.
        Of labels, the mean with one that learned changed pictures is steadier.
        """
        ways, changes, students = self._readings(), augmentations(self.spec), self.students
        if self.hurried():
            ways, changes = tuple(way for way in ways if way in (ways[0], "labels")), changes[len(ways) > 1 :]
            students = (students[0], *(student for student in students[1:] if not STUDENTS[student].spatial))
        large = self.spec.features > SMALL
        usual = {student: changes[0] if large and STUDENTS[student].spatial else changes[-1] for student in students}
        trials = [self._try(Candidate(student, ways[0], usual[student]), part, name) for student in students]
        trials = self._in_time(trials, part, name)
        for trial in part.ranked(trials)[: 1 if self.pictures else _READERS]:
            one = trial.candidates[0]
            others = [replace(one, reading=way) for way in told_apart(one.student, ways[1:]) if way != "labels"]
            if self.pictures:
                for other in others:
                    trials += self._if_better(other, trials, part, name, ERRORS)
            else:
                trials += [self._try(other, part, name) for other in others]
        if len(ways) > 1:
            self.tried |= {str(trial): trial.held_out for trial in trials}
            trials = self._labels_or_more(trials, part, name)
            changes = augmentations(self.spec) if part.ranked(trials)[0].candidates[0].reading == "labels" else changes
        seeing = [one.candidates[0] for one in part.ranked(trials)]
        seeing = [one for one in seeing if large or STUDENTS[one.student].spatial][:1]
        for changed in (replace(one, augmentation=new) for one in seeing for new in changes if new != one.augmentation):
            trials += self._unchanged(changed, trials, part, name) if large else [self._try(changed, part, name)]
        return trials

    def hurried(self) -> bool:
        """Whether a copy of a small picture has time for little more than a network's first steps."""
        n = len(self.asker.x)
        return self.pictures and in_a_hurry(self._seconds(n), self.spec, n)

    def _in_time(self, trials: list[Tried], part: Parted, name: str) -> list[Tried]:
        """The trials without students that are ahead of what sees most of a picture only because that learns slower.

        So both are tried again for a good part of the time that a copy has. Whom it overtakes is left out until
        all are compared anew: few answers must not decide for many.
        """
        most, best = self.students[0], part.ranked(trials)[0]
        own = [trial for trial in trials if trial.candidates[0].student == most]
        if not self.pictures or not own or best in own or self.hurried():
            return trials
        first = part.ranked(own)[0]
        seconds = longer_seconds(self._seconds(len(part.x)), self._trial_seconds(part))
        slower, sooner = (self._try(one.candidates[0], part, f"{name}-longer", seconds) for one in (first, best))
        if part.better(max(best, sooner, key=lambda trial: trial.worth), slower, 1.0):
            return trials
        self.tried |= {str(trial): trial.held_out for trial in trials}
        return own + [trial for trial in trials if trial not in own and trial.worth <= first.worth]

    def _labels_or_more(self, trials: list[Tried], part: Parted, name: str) -> list[Tried]:
        """The trials, with one of labels alone if these are better: a defense may have spoiled the rest of the answers.

        So what counts is how many labels are named: to foresee what was spoiled says nothing. A network learns labels
        sooner and scores better, so short trials flatter labels: if they are ahead of scores, trials several times as
        long decide.
        """
        best = part.ranked(trials)[0]
        alone = replace(best.candidates[0], reading="labels")
        trained = STUDENTS[alone.student].trained
        less = self._try(alone, part, name)
        self.tried[str(less)] = less.held_out
        if less.held_out < best.held_out + (ERRORS if trained else 0.0) * part.error(best.held_out):
            return trials
        if trained and not self.hurried():
            seconds = _LONGER * self._trial_seconds(part)
            more, less = (self._try(one, part, f"{name}-longer", seconds) for one in (best.candidates[0], alone))
            self.tried[str(less)] = less.held_out
            if less.held_out < more.held_out + ERRORS * part.error(more.held_out):
                return [*(trial for trial in trials if trial.candidates != more.candidates), more]
            trials = [trial for trial in trials if trial.candidates != more.candidates]
        return [less] if part.graded else [*trials, less]

    def _if_better(
        self, candidate: Candidate, trials: list[Tried], part: Parted, name: str, errors: float
    ) -> list[Tried]:
        """A trial of what learns from less, if it is clearly better than the best: short trials flatter it."""
        best, less = part.ranked(trials)[0], self._try(candidate, part, name)
        self.tried[str(less)] = less.held_out
        return [less] if part.better(less, best, errors) else []

    def _unchanged(self, candidate: Candidate, trials: list[Tried], part: Parted, name: str) -> list[Tried]:
        """A trial of what sees large pictures as they are, if it is clearly better than the best in a long one too.

        Mirrored and shifted ones take longer to learn, and teach more in the end.
        """
        less = self._if_better(candidate, trials, part, name, ERRORS)
        if not less:
            return []
        seconds = longer_seconds(self._seconds(len(part.x)), self._trial_seconds(part))
        both = part.ranked(trials)[0].candidates[0], candidate
        more, longer = (self._try(one, part, f"{name}-longer", seconds) for one in both)
        return less if part.better(longer, more, ERRORS) else []

    def _trial_seconds(self, part: Parted) -> float:
        n = len(part.learned)
        return trial_seconds(self._seconds(n), self.attack.effort, self.spec, n)

    def _try(self, candidate: Candidate, part: Parted, name: str, seconds: float | None = None) -> Tried:
        x, answer = part.x[part.learned], part.answer.rows(part.learned)
        if seconds is None:
            less = candidate.reading == "labels" and self._readings()[0] != "labels"
            light = self.hurried() and (less or not STUDENTS[candidate.student].spatial)
            seconds = self._trial_seconds(part) * (_LIGHT if light else 1.0)
        try:
            model = self.fit(candidate, x, answer, f"{name}-trial", seconds)
        except Inconclusive:  # it diverged
            return Tried((candidate,), 0.0, Mean([]), torch.full((len(part.held),), LOST) if part.graded else None)
        return part.tried((candidate,), model)

    def _copy(self, best: Tried, name: str) -> nn.Module:
        """The winners, from all answers; of small inputs the mean of several of one, which is steadier.

        In a hurry trials take the place of copies: of all before the last answers came, then of all but the first where
        there is no time for more.
        """
        x, answer, members = self.asker.x, self.asker.answer, [*best.candidates]
        seconds, others = self._seconds(len(x)), list[nn.Module]()
        if self.hurried() and self.ranking:
            if not self._last():
                return best.model
            count = min(MEMBERS, int(seconds / first_seconds(len(x), self.spec)))
            if count < len(members) and isinstance(best.model, Mean):
                members, others = members[:1], [*best.model.members][1:]
            members *= max(1, count // len(members)) if not others else 1
        elif self.spec.features <= SMALL and any(STUDENTS[one.student].trained for one in members):
            each = max(_MEMBER, self.spec.features / _A_SECOND)
            members *= max(1, min(MEMBERS, int(seconds / each)) // len(members))
        seconds /= len(members)
        learned = [self.fit(one, x, answer, f"{name}-copy-{i}", seconds) for i, one in enumerate(members)]
        return learned[0] if len(learned) + len(others) == 1 else Mean([*learned, *others])

    def fit(self, candidate: Candidate, x: Tensor, answer: Answer, name: str, seconds: float) -> nn.Module:
        """What a candidate makes of some answers in about so many seconds."""
        name = f"{name}-{candidate.student}-{candidate.reading}-{candidate.augmentation}"
        seed = derive(self.job.seed, "auto", name)
        lesson = Lesson(x, answer, candidate.reading, candidate.augmentation, self.spec, self.job, seed, name, seconds)
        return STUDENTS[candidate.student].fit(lesson)

    def _seconds(self, n: int) -> float:
        return self.attack.seconds_for(n, self.spec)


LEAST = 40  # answers from which some are held out
_LONGER = 5.0  # times as long are trials that decide whether labels are all that answers are good for
_FEW = 100  # answers held out below which their word is worth half
_READERS = 2  # students that try every reading, of small inputs
_LIGHT = 1 / 2  # of that time for what is as far by then: networks that do not see pictures, and labels alone
_MEMBER, _A_SECOND = 3.0, 64  # seconds that each has at least: so many, and one for so many features
