"""Attacks on a fixed pool of queries: where the pool comes from, and one fresh student for each stop.

The pool is the attacker's: the victim's own data, other data, pictures drawn by code, or Gaussian noise, the control
that needs none.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from pathlib import Path

import torch
from pydantic import Field
from torch import Tensor, nn

from leakmeter.data.catalogue import load
from leakmeter.data.dataset import adapt
from leakmeter.errors import BudgetExhausted
from leakmeter.extraction.base import Attack, AttackJob, student_name
from leakmeter.extraction.findings import Findings, class_counts, class_entropy
from leakmeter.extraction.pictured import pictured
from leakmeter.extraction.procedural import Procedural
from leakmeter.extraction.sources import SOURCES
from leakmeter.extraction.sources.tables import amounts, table_of
from leakmeter.oracle.answer import Answer
from leakmeter.oracle.oracle import Oracle
from leakmeter.seeds import stream
from leakmeter.victims.spec import VictimSpec

GAUSSIAN, PROCEDURAL, USUAL = "gaussian", "procedural", "usual"
_GREY, _COLOURED = ("drawings", "glyphs"), ("drawings", "glyphs", "photographs")
_ENOUGH = 50_000  # queries of an endless source when neither stops nor a budget end the attack


class PoolAttack(Attack):
    """Asks a pool in order, each input once, and learns from all answers so far at every stop."""

    pool: str | Tensor = GAUSSIAN
    """`gaussian`, `procedural`, `usual`, a dataset's name or path (its train split), or a tensor of inputs."""
    first_classes: int | None = Field(default=None, ge=1)
    """Keep only the pool's first classes (SVHN_skew in DFME)."""
    data_dir: Path | None = None
    student: str | None = None
    """A model's name; None: lenet for images, mlp for features."""

    def copied_into(self, spec: VictimSpec) -> str:
        """The name of the network that a copy is."""
        return student_name(self.student, spec)

    @abstractmethod
    def learn(self, student: nn.Module, x: Tensor, answer: Answer, job: AttackJob, spec: VictimSpec) -> None:
        """Trains the fresh `student` on the queries `x` and the answers to them."""

    def run(self, oracle: Oracle, job: AttackJob) -> tuple[nn.Module, Findings]:
        """One fresh student for each stop, trained on everything asked up to there."""
        pool = self._pool(oracle.spec, job)
        job.show_queries(pool)
        job.notes["pool"] = len(pool)
        stops = sorted({min(stop, len(pool)) for stop in job.stops}) or [len(pool)]
        answers: list[Answer] = []
        student = job.student(self.copied_into(oracle.spec), oracle)
        for before, stop in zip([0, *stops], stops, strict=False):
            try:
                answers = [Answer.join([*answers, oracle.query_up_to_budget(pool[before:stop])])]
            except BudgetExhausted:  # a remote victim had to be asked again, at the budget's cost
                if not answers:
                    raise
                break
            student, asked = job.student(self.copied_into(oracle.spec), oracle), len(answers[0])
            self.learn(student, pool[:asked].float(), answers[0], job, oracle.spec)
            job.observe(student, asked)
            if asked < stop:
                break
        return student, Findings(
            class_entropy=class_entropy(class_counts(answers[0].labels, oracle.spec.classes)),
            student=self.copied_into(oracle.spec),
        )

    def _pool(self, spec: VictimSpec, job: AttackJob) -> Tensor:
        draws = stream(job.seed, "pool")
        if isinstance(self.pool, Tensor):
            return self.pool
        drawn = {GAUSSIAN: gaussian, PROCEDURAL: Procedural().draw, USUAL: usual}
        if (make := drawn.get(self.pool)) is not None:
            return make(job.stops[-1] if job.stops else _ENOUGH, spec, draws)
        x = real_inputs(self.pool, self.data_dir, spec, self.first_classes)
        return x[torch.randperm(len(x), generator=draws)]


def real_inputs(name: str, data_dir: Path | None, spec: VictimSpec, first_classes: int | None = None) -> Tensor:
    """The train split of a dataset as the victim takes its inputs."""
    bounds = (
        -math.inf if spec.low is None else float(spec.low.min()),
        math.inf if spec.high is None else float(spec.high.max()),
    )
    data = load(name, "train", data_dir, bounds=bounds)
    return adapt(data, spec.input_shape, first_classes=first_classes).into(spec.box).x


def gaussian(n: int, spec: VictimSpec, generator: torch.Generator) -> Tensor:
    """Normal noise about the middle of the box, a quarter of its width in spread; standard where the box is open."""
    noise = torch.randn(n, *spec.input_shape, generator=generator)
    if spec.low is None or spec.high is None:
        return spec.clamp(noise)
    return spec.clamp((spec.low + spec.high) / 2 + noise * (spec.high - spec.low) / 4)


def usual(n: int, spec: VictimSpec, generator: torch.Generator) -> Tensor:
    """What looks like inputs: pictures from every source in turn, rows as a table has them; else Gaussian noise."""
    shown = pictured(spec)
    if len(shown.input_shape) == 3:
        names = _GREY if shown.input_shape[0] == 1 else _COLOURED
        drawn = [SOURCES[name](-(-n // len(names)), shown, generator) for name in names]
        return torch.stack(drawn, dim=1).reshape(-1, *spec.input_shape)[:n]
    return gaussian(n, spec, generator) if table_of(spec) is None else amounts(n, spec, generator)
