"""Distillation from a pool of queries (DFME appendix A): ask each once, train with the temperature-scaled KL.

The pool is the attacker's: the victim's own data, other data, or Gaussian noise, the control that needs none.
"""

from __future__ import annotations

from pathlib import Path

import torch
from pydantic import Field
from torch import Tensor, nn

from leakmeter.data.adapt import adapt
from leakmeter.data.catalogue import load
from leakmeter.extraction.base import Attack, Job
from leakmeter.extraction.targets import answered_logits, kl_loss
from leakmeter.oracle.oracle import Oracle
from leakmeter.seeds import derive, stream
from leakmeter.training.loop import Batch, Recipe, fit
from leakmeter.victims.spec import VictimSpec

GAUSSIAN = "gaussian"


class Surrogate(Attack):
    """Queries a pool and distils the answers into a student."""

    pool: str | Tensor = GAUSSIAN
    """`gaussian`, a dataset's name or path (its train split), or a tensor of inputs."""
    first_classes: int | None = Field(default=None, ge=1)
    """Keep only the pool's first classes (SVHN_skew in the paper)."""
    data_dir: Path | None = None
    student: str | None = None
    """A model's name; None: lenet for images, mlp for features."""
    temperature: float = Field(default=3.0, gt=0)
    """The paper tries 1, 3, 5 and 10."""
    recipe: Recipe = Recipe(steps=3000, batch=200, lr=2e-3, schedule="cyclic")

    def run(self, oracle: Oracle, job: Job) -> nn.Module:
        """One fresh student for each stop, trained on everything asked up to there."""
        pool = self._pool(oracle.spec, job)
        job.show_queries(pool)
        job.notes["pool"] = len(pool)
        stops = sorted({min(stop, len(pool)) for stop in job.stops}) or [len(pool)]
        asked, targets = 0, torch.empty(0, oracle.spec.classes)
        student = job.student(self.student, oracle)
        for stop in stops:
            answer = oracle.query(pool[asked:stop])
            targets, asked = torch.cat([targets, answered_logits(answer).float()]), stop
            student = job.student(self.student, oracle)
            fit(
                student,
                (pool[:asked].float(), targets),
                self._loss,
                self.recipe,
                seed=derive(job.seed, "fit", stop),
                progress=job.progress,
                title=f"student at {stop:,} queries",
                checkpoint=job.checkpoint(f"student-{stop}"),
            )
            job.observe(student, asked)
        return student

    def _loss(self, model: nn.Module, batch: Batch, _: torch.Generator) -> Tensor:
        x, target = batch
        return kl_loss(model(x), target, self.temperature)

    def _pool(self, spec: VictimSpec, job: Job) -> Tensor:
        draws = stream(job.seed, "pool")
        if isinstance(self.pool, Tensor):
            return self.pool
        if self.pool == GAUSSIAN:
            return gaussian(job.stops[-1] if job.stops else 50_000, spec, draws)
        data = adapt(load(self.pool, "train", self.data_dir), spec.input_shape, first_classes=self.first_classes)
        x = data.x[torch.randperm(len(data), generator=draws)]
        if spec.low is None or spec.high is None or x.dim() == 2:
            return x
        return spec.clamp(spec.low + x * (spec.high - spec.low))  # images come in [0, 1]


def gaussian(n: int, spec: VictimSpec, generator: torch.Generator) -> Tensor:
    """Normal noise about the middle of the box, a quarter of its width in spread; standard where the box is open."""
    noise = torch.randn(n, *spec.input_shape, generator=generator)
    if spec.low is None or spec.high is None:
        return spec.clamp(noise)
    return spec.clamp((spec.low + spec.high) / 2 + noise * (spec.high - spec.low) / 4)
