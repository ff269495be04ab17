"""Copies that are the mean of several: which candidates are joined, and where one alone is not to be trusted."""

from __future__ import annotations

from dataclasses import replace

from leakmeter.extraction.students import STUDENTS
from leakmeter.extraction.students.mean import Mean
from leakmeter.extraction.trials import Parted, Tried

ERRORS = 2.0  # standard errors by which one must be better than another for chance not to decide
MEMBERS = 3  # copies at most whose mean is taken
LOST = 1e9  # surprise of what diverged: more than any other, and a number that can be reckoned with


def means(trials: list[Tried], part: Parted) -> list[Tried]:
    """The means of the best.

    Of pictures of two or three, if one is better than each. What does not see pictures must be the best alone, since
    drawn ones flatter it, and is joined only by what cannot be told from it. Of rows of two that are different
    students and nearly as good.
    """
    if part.graded:
        told = [one for one in trials if one.surprise is not None and one.worth > -LOST]
        singles = sorted(told, key=lambda trial: -trial.worth)
        best = [one for one in singles if sees(one)]
        if singles and singles[0] not in best:
            best = [singles[0], *(one for one in singles[1:] if not part.better(singles[0], one, 1.0))]
        best = best[:MEMBERS]
        some = [_mean(best[:number], part) for number in range(2, len(best) + 1)]
        return sorted((mean for mean in some if mean.worth > best[0].worth), key=lambda mean: -mean.worth)
    first, *others = part.ranked(trials)
    if first.held_out == 1:
        return []
    second = next((t for t in others if t.candidates[0].student != first.candidates[0].student), None)
    if second is None or second.held_out < first.held_out - ERRORS * part.error(first.held_out):
        return []
    return [_mean([first, second], part)]


def with_seeing(best: Tried, ranking: list[Tried], part: Parted | None) -> Tried:
    """The best; if it does not see pictures, joined by the best that do, since labels of drawn pictures flatter it.

    By one where it is clearly better than all of these in the answers `part` holds out: that much it may be flattered.
    """
    if any(STUDENTS[one.student].spatial for one in best.candidates):
        return best
    seeing = [one for one in ranking if len(one.candidates) == 1 and sees(one)]
    near = [one for one in seeing if part is None or not part.better(best, one, ERRORS)]
    joined = [best, *(near[: MEMBERS - 1] or seeing[:1])]
    members = tuple(dict.fromkeys(one for trial in joined for one in trial.candidates[:1]))
    return replace(best, candidates=members, model=Mean([trial.model for trial in joined]))


def with_other_kinds(best: Tried, ranking: list[Tried], students: tuple[str, ...], near: float) -> Tried:
    """The best, with the other kinds of students that too few answers cannot tell from it.

    Args:
        best: one candidate, or several that are joined already.
        ranking: all that were tried.
        students: their kinds, in the order in which they are joined.
        near: how many answers held out a student must have named.
    """
    if len(best.candidates) > 1:
        return best
    first = best.candidates[0]
    singles = [trial for trial in ranking if trial.held_out >= near and len(trial.candidates) == 1]
    kinds = {trial.candidates[0].student: trial.candidates[0] for trial in reversed(singles)}
    hedges = [kinds[student] for student in students if student in kinds and student != first.student]
    return replace(best, candidates=(first, *hedges))


def sees(trial: Tried) -> bool:
    """Whether its first student sees a picture as one."""
    return STUDENTS[trial.candidates[0].student].spatial


def _mean(trials: list[Tried], part: Parted) -> Tried:
    model = Mean([trial.model for trial in trials]).eval()
    return part.tried(tuple(one for trial in trials for one in trial.candidates), model)
