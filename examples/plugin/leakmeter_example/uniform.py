"""Uniform points of the box, each asked once, and one student that learns the answers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leakmeter.errors import NotApplicable
from leakmeter.extraction.base import Attack, AttackJob, student_name
from leakmeter.extraction.findings import Findings, class_counts, class_entropy
from leakmeter.extraction.targets import answered_logits, l1_loss
from leakmeter.oracle.oracle import Oracle
from leakmeter.oracle.view import View
from leakmeter.seeds import derive, stream
from leakmeter.training.loop import Batch, Recipe, fit
from leakmeter.victims.spec import VictimSpec


class Uniform(Attack):
    """Fields are options: `-S recipe.steps=500` on the command line, a key beside `name` in a plan."""

    student: str | None = None
    """A model's name; None: lenet for images, mlp for features."""
    recipe: Recipe = Recipe(steps=1000)

    def check(self, spec: VictimSpec, view: View) -> None:
        """Says before the first query where the attack cannot work; an audit then skips it and says why."""
        super().check(spec, view)
        if view.kind == "labels":
            raise NotApplicable(f"'uniform' needs more than labels to learn from, got the view '{view}'")

    def run(self, oracle: Oracle, job: AttackJob) -> tuple[nn.Module, Findings]:
        """One point of the curve, at the end."""
        n = job.stops[-1] if job.stops else 10_000
        x = oracle.spec.sample(n, stream(job.seed, "queries"))
        answer = oracle.query_up_to_budget(x)
        x = x[: len(answer)]
        student = job.student(self.student, oracle)
        fit(
            student,
            (x, answered_logits(answer).float()),
            _loss,
            self.recipe,
            seed=derive(job.seed, "fit"),
            progress=job.progress,
            checkpoint=job.checkpoint("student"),
        )
        job.observe(student, len(x))
        return student, Findings(
            class_entropy=class_entropy(class_counts(answer.labels, oracle.spec.classes)),
            student=student_name(self.student, oracle.spec),
        )


def _loss(model: nn.Module, batch: Batch, _: torch.Generator) -> Tensor:
    x, target = batch
    return l1_loss(model(x), target)
