"""The plain attacker: asks points and corners of the box, and learns their labels by logistic regression or trees.

What anybody writes in ten lines. It stands beside the choosing attacker in every default audit, so that no verdict is
better than what it leaves.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from leakmeter.errors import BudgetExhausted, NotApplicable, UsageError
from leakmeter.evaluation.score import predict
from leakmeter.extraction.base import Attack, AttackJob
from leakmeter.extraction.findings import Findings, Trial, class_counts, class_entropy
from leakmeter.extraction.sources import POINTS, SOURCES
from leakmeter.extraction.students import STUDENTS, Lesson
from leakmeter.oracle.answer import Answer, to_labels
from leakmeter.oracle.oracle import Oracle
from leakmeter.oracle.view import View
from leakmeter.seeds import derive, stream
from leakmeter.victims.spec import VictimSpec

_STUDENTS = ("linear", "bagged")
_HELD_OUT, _LEAST = 0.2, 40  # of the answers decides between students, where there are so many
_SECOND = 2e6  # numbers in the queries learned in a second


class Plain(Attack):
    """Blind queries, labels, and the better of two students that need no tuning."""

    single_score: ClassVar[bool] = True
    reads_labels_only: ClassVar[bool] = True

    def check(self, spec: VictimSpec, view: View) -> None:
        """Refuses inputs too large for logistic regression."""
        super().check(spec, view)
        if not _students(spec):
            raise NotApplicable(f"'plain' solves for every feature; {spec.features} are too many for that")

    def expected_seconds(self, spec: VictimSpec, stops: tuple[int, ...]) -> float:
        """Of solving twice at each stop."""
        return sum(0.1 + 2 * stop * spec.features / _SECOND for stop in stops)

    def run(self, oracle: Oracle, job: AttackJob) -> tuple[nn.Module, Findings]:
        """At each stop a copy from all labels seen up to there."""
        if not job.stops:
            raise UsageError("the attack 'plain' needs an end; give the oracle a budget")
        draws, x, answers = stream(job.seed, "plain"), torch.empty(0, *oracle.spec.input_shape), list[Answer]()
        trials: dict[str, float] = {}
        for stop in job.stops:
            drawn = _drawn(stop - len(x), oracle.spec, draws)
            try:
                answers.append(oracle.query_up_to_budget(drawn))
            except BudgetExhausted:
                if not answers:
                    raise
                break
            x = torch.cat([x, drawn[: len(answers[-1])].float()])
            answer = Answer.join(answers)
            job.progress.say(f"plain: solving for {len(x):,} labels")
            trials = _compared(x, answer, oracle.spec, job)
            copy = _fit(max(trials, key=trials.__getitem__), x, answer, oracle.spec, job)
            job.observe(copy, len(x))
        job.show_queries(x)
        entropy = class_entropy(class_counts(answer.labels, oracle.spec.classes))
        best = max(trials, key=trials.__getitem__)
        tried = tuple(Trial(name=name, held_out=value, chosen=name == best) for name, value in trials.items())
        return copy, Findings(class_entropy=entropy, tried=tried)


def _students(spec: VictimSpec) -> list[str]:
    return [name for name in _STUDENTS if STUDENTS[name].suits(spec)]


def _drawn(n: int, spec: VictimSpec, draws: torch.Generator) -> Tensor:
    """Half of them corners, where the box has any and a row need be no row of a table."""
    corners = n // 2 if spec.width is not None and spec.columns is None else 0
    parts = [
        SOURCES[name](count, spec, draws) for name, count in zip(POINTS, (n - corners, corners), strict=True) if count
    ]
    return torch.cat(parts)[torch.randperm(n, generator=draws)]


def _compared(x: Tensor, answer: Answer, spec: VictimSpec, job: AttackJob) -> dict[str, float]:
    """How often each student that learned most of the labels names the others; the first alone where they are few."""
    names, held = _students(spec), round(_HELD_OUT * len(x))
    if len(x) < _LEAST or len(names) == 1:
        return {names[0]: 0.0}
    rows, labels = torch.arange(held, len(x)), answer.labels[:held]
    models = {name: _fit(name, x[held:], answer.rows(rows), spec, job) for name in names}
    return {
        name: float((to_labels(predict(model, x[:held])) == labels).double().mean()) for name, model in models.items()
    }


def _fit(student: str, x: Tensor, answer: Answer, spec: VictimSpec, job: AttackJob) -> nn.Module:
    seed = derive(job.seed, "plain", student)
    return STUDENTS[student].fit(Lesson(x, answer, "labels", "none", spec, job, seed, f"plain-{len(x)}", 1.0))
