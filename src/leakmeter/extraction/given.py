"""Copies from answers that somebody else bought: what an access log shows that a client holds.

A thief who chooses has luck or has none: on few answers the best way is often not the one that held-out answers name.
So beside the choosing attacker stand thieves who each know one way only, and whoever judges takes the best of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn

from leakmeter.errors import Inconclusive
from leakmeter.evaluation.score import predict
from leakmeter.extraction.auto import Auto
from leakmeter.extraction.base import AttackJob
from leakmeter.extraction.chooser import Chooser
from leakmeter.extraction.pictured import AsPicture, pictured
from leakmeter.extraction.students import STUDENTS, told_apart, usual_students
from leakmeter.extraction.students.mean import Mean
from leakmeter.extraction.students.reading import Reading, readings
from leakmeter.extraction.students.reduced import reduced
from leakmeter.extraction.trials import Candidate
from leakmeter.oracle.answer import Answer, to_labels
from leakmeter.oracle.view import View
from leakmeter.seeds import derive, stream
from leakmeter.victims.spec import VictimSpec


@dataclass(frozen=True, eq=False)
class Given:
    """Queries and their answers, in the order they were asked."""

    x: Tensor
    answer: Answer

    def first(self, n: int) -> Given:
        """The first `n` of them."""
        columns = {name: column[:n] for name, column in self.answer.columns.items()}
        return Given(self.x[:n], replace(self.answer, columns=columns))

    def plausible(self) -> Tensor:
        """All rows: nobody says where they come from."""
        return torch.arange(len(self.x))


def copies_from(given: Given, spec: VictimSpec, seed: int, **options: Any) -> dict[str, nn.Module]:
    """What several thieves make of the same answers, by name: `auto`, who chooses, and those who know one way only.

    Args:
        given: at least one query with its answer.
        spec: of the victim that answered.
        seed: the same answers and seed give the same copies.
        **options: of the attack `auto`, such as effort and students.
    """
    copies, attack = {"auto": copy_from(given, spec, seed, **options)}, Auto(**options)
    for way in single_ways(attack.students or usual_students(spec), given.answer.view, spec):
        chooser = _chooser(attack, given, spec, derive(seed, "single", str(way)))
        with suppress(Inconclusive):  # it diverged
            copies[str(way)] = _made(chooser, (way,), spec)
    return copies


def _chooser(attack: Auto, given: Given, spec: VictimSpec, seed: int) -> Chooser:
    """Who chooses among students of these answers; rows that may be pictures are learned as such too."""
    laid = pictured(spec)
    seen = Given(reduced(given.x.reshape(-1, *laid.input_shape)), given.answer)
    others = () if laid is spec else usual_students(spec)
    return Chooser(attack, laid, AttackJob(seed, torch.device("cpu")), seen, others)


def single_ways(students: Sequence[str], view: View, spec: VictimSpec) -> list[Candidate]:
    """How those learn who do not choose.

    Of a picture the likeliest network distils what is shown, and logistic regression learns labels; of anything else,
    where students learn in no time, each of them does.
    """
    shown = readings(view, spec.classes)
    if len(spec.input_shape) != 3:
        return [Candidate(name, shown[0], "none") for name in students]
    usual: Reading = "softened" if "softened" in shown else shown[0]
    ways = [Candidate(name, usual, "none") for name in students[:1] if name != "linear"]
    return [*ways, *(Candidate(name, "labels", "none") for name in students if name == "linear")]


def _made(chooser: Chooser, members: tuple[Candidate, ...], spec: VictimSpec) -> nn.Module:
    """The copy that these make of all answers together."""
    x, answer = chooser.asker.x, chooser.asker.answer
    if spec.columns is None:
        return _as_asked(chooser.copied_by(members, f"{len(x)}"), chooser, spec)
    seconds = _LAST * chooser.attack.effort / len(members)
    made = [chooser.fit(way, x, answer, f"copy-{k}", seconds) for k, way in enumerate(members)]
    return (made[0] if len(made) == 1 else Mean(made)).eval()


def _as_asked(copy: nn.Module, chooser: Chooser, spec: VictimSpec) -> nn.Module:
    """The copy, of inputs in the victim's own shape."""
    shape = chooser.victim.input_shape
    return (copy if shape == spec.input_shape else AsPicture(shape, copy)).eval()


def copy_from(given: Given, spec: VictimSpec, seed: int, **options: Any) -> nn.Module:
    """The copy that the choosing attacker (`auto`) makes of these answers, and of nothing else.

    Few answers held out choose by luck. So where there are few, others are held out again and again, and all of them
    together decide; two kinds of students that they cannot tell apart are both taken.

    Args:
        given: at least one query with its answer.
        spec: of the victim that answered.
        seed: the same answers and seed give the same copy.
        **options: of the attack `auto`, such as effort and students.
    """
    attack, n = Auto(**options), len(given.x)
    times = min(_MOST, max(1, math.ceil(_DECIDE / (attack.held_out * n))))
    choosers = [_chooser(attack, given, spec, derive(seed, "copy", number)) for number in range(times)]
    if spec.columns is not None and n >= _FEWEST:
        return _of_table(given, choosers[0])
    found = [chooser.compared(f"{n}") for chooser in choosers]
    if not all(found):
        return _as_asked(choosers[0].copied(f"{n}"), choosers[0], spec)
    scores = {way: [each[way] for each in found if way in each] for each in found for way in each}
    mostly = {way: fmean(own) for way, own in scores.items() if len(own) > times / 2}
    return _made(choosers[0], chosen(mostly, times * attack.held_out * n, spec), spec)


def _of_table(given: Given, chooser: Chooser) -> nn.Module:
    """Trees learn in no time: every student and reading is tried on parts of the answers until each was held out."""
    spec, n = chooser.spec, len(given.x)
    shown = readings(given.answer.view, spec.classes)
    names = chooser.attack.students or usual_students(spec)
    shown_to = {name: shown[:1] if STUDENTS[name].differentiable else told_apart(name, shown) for name in names}
    ways = [Candidate(name, way, "none") for name, seen in shown_to.items() for way in seen]
    parts = torch.randperm(n, generator=stream(chooser.job.seed, "parts")).chunk(_PARTS)
    right: dict[tuple[Candidate, ...], float] = {
        (way,): sum(_agreed(given, chooser, way, part) for part in parts) / n for way in ways
    }
    return _made(chooser, chosen(right, n, spec), spec)


def _agreed(given: Given, chooser: Chooser, way: Candidate, part: Tensor) -> int:
    """How many answers of a part are named by what learned the others."""
    others = torch.ones(len(given.x), dtype=torch.bool).index_fill_(0, part, False).nonzero()[:, 0]
    name = f"part-{int(part[0])}"
    try:
        model = chooser.fit(way, given.x[others], given.answer.rows(others), name, chooser.attack.effort)
    except Inconclusive:  # it diverged
        return 0
    return int((to_labels(predict(model, given.x[part])) == given.answer.labels[part]).sum())


def chosen(agreement: Mapping[tuple[Candidate, ...], float], held: float, spec: VictimSpec) -> tuple[Candidate, ...]:
    """Of pictures the likelier within a standard error; of anything else the best, with a second kind as good as it."""
    names = usual_students(spec)
    ways = sorted(agreement, key=lambda way: (len(way), names.index(way[0].student) if way[0].student in names else 0))
    best = max(agreement.values())
    error = math.sqrt(best * (1 - best) / held)
    near = [way for way in ways if agreement[way] >= best - error]
    if len(spec.input_shape) == 3:
        return near[0]
    near.sort(key=lambda way: -agreement[way])
    second = next((way for way in near if len(way) == 1 and way[0].student != near[0][0].student), ())
    return near[0] if len(near[0]) > 1 else (*near[0], *second)


_DECIDE, _MOST = 100, 3  # answers that decide, if that takes no more than so many comparisons
_FEWEST, _PARTS, _LAST = 10, 3, 4.0  # of a table: answers to choose by, parts of them, seconds for the copy
