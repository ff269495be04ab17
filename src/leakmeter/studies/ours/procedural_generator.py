"""Does a generator help once drawn queries have begun? Half drawn and half generated, against as many all drawn.

The generator costs no query of its own: it learns to make two students disagree (as in DisGUIDE) and asks what it then
makes; the students learn the answers and it goes on. Both arms end in the same student with the same steps.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from leakmeter.data.catalogue import load
from leakmeter.evaluation.score import reference
from leakmeter.extraction.makers import draw
from leakmeter.extraction.procedural import GREY
from leakmeter.extraction.targets import answered_logits, l1_loss
from leakmeter.models import make_generator, make_model
from leakmeter.oracle.oracle import Oracle
from leakmeter.seeds import derive, stream
from leakmeter.studies.copies import described, median_over_seeds, victim_of
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import Row, by_group, of_median
from leakmeter.training.loop import Batch, Recipe, fit

BUDGETS = {"mnist": 2_000, "fashion-mnist": 20_000}
ROUNDS = 5
SHAPE = (1, 28, 28)
BALANCE = 0.2
"""DisGUIDE's weight of an even mean prediction."""
LEARN = Recipe(steps=3000, batch=128, lr=3e-3, schedule="cyclic")
SEEK = Recipe(steps=200, batch=128)
GO_ON = Recipe(steps=500, batch=128)
COPY = Recipe(steps=8000, batch=128, lr=3e-3, schedule="cyclic")
_SHORT = Recipe(steps=20, batch=50)


def main(settings: StudyOptions) -> dict[str, Any]:
    """Share of the victim's accuracy of either arm, and their difference over seeds."""
    record = settings.record("procedural-generator", victim="lenet", student="lenet", view="probs", budgets=BUDGETS)
    for dataset in BUDGETS:
        for number in settings.numbers:
            record.cell(f"{dataset}/seed{number}", partial(_cell, settings, dataset, number))
    groups = {name: [c for key, c in record.content["cells"].items() if key.startswith(f"{name}/")] for name in BUDGETS}
    gains = {name: median_over_seeds([_gain(cell) for cell in cells]) for name, cells in groups.items()}
    return record.write(summary=gains)


def _gain(cell: dict[str, Any]) -> float:
    drawn, generated = (cell[arm]["accuracy_over_victim"] for arm in ("drawn", "generated"))
    return float(generated - drawn)


def _cell(settings: StudyOptions, dataset: str, seed: int) -> dict[str, Any]:
    budget = 200 if settings.quick else BUDGETS[dataset]
    victim = victim_of(settings, dataset, "lenet", seed)
    test = reference(victim, load(dataset, "test", settings.data_dir))
    drawn = draw(GREY, budget, SHAPE, stream(seed, "drawn"))
    facts = {}
    for arm in ("drawn", "generated"):
        thief = _Thief(Oracle(victim, "probs", budget), settings, seed)
        if arm == "drawn":
            thief.ask(drawn)
        else:
            thief.ask(drawn[: budget // 2])
            thief.generate(budget - budget // 2)
        facts[arm] = described(test.score(thief.student("copy", COPY)))
    return facts


class _Thief:
    """What one arm has asked, and how it learns."""

    def __init__(self, oracle: Oracle, settings: StudyOptions, seed: int) -> None:
        self.oracle, self.settings, self.seed = oracle, settings, seed
        self.x, self.target = torch.empty(0, *SHAPE), torch.empty(0, oracle.spec.classes)

    def ask(self, x: Tensor) -> None:
        answer = answered_logits(self.oracle.query(x)).float()
        self.x, self.target = torch.cat([self.x, x]), torch.cat([self.target, answer])

    def student(self, name: str, recipe: Recipe) -> nn.Module:
        """A fresh one that knows everything asked so far."""
        return self._fit(make_model("lenet", SHAPE, 10, seed=derive(self.seed, name)), recipe, name)

    def generate(self, n: int) -> None:
        """Asks `n` images on which two students disagree, in rounds."""
        students = [self.student(f"student {i}", LEARN) for i in range(2)]
        generator = make_generator("dfme", SHAPE, seed=self.seed, width=16)
        z = generator.noise(n, stream(self.seed, "noise"))
        for number, rows in enumerate(torch.split(z, -(-n // ROUNDS))):
            seed, seek = derive(self.seed, "round", number), partial(_agreement, students)
            fit(generator, (z,), seek, self._sized(SEEK), seed=seed, progress=self.settings.progress, title="generator")
            with torch.no_grad():
                self.ask(generator.to_box(generator(rows)))
            for i, student in enumerate(students):
                self._fit(student, GO_ON, f"round {number} student {i}")

    def _fit(self, student: nn.Module, recipe: Recipe, name: str) -> nn.Module:
        seed, progress = derive(self.seed, name), self.settings.progress
        return fit(student, (self.x, self.target), _loss, self._sized(recipe), seed=seed, progress=progress, title=name)

    def _sized(self, recipe: Recipe) -> Recipe:
        return _SHORT if self.settings.quick else recipe


def _agreement(students: list[nn.Module], generator: nn.Module, batch: Batch, _: torch.Generator) -> Tensor:
    x = generator.to_box(generator(batch[0]))  # type: ignore[operator]
    first, second = (student(x).softmax(1) for student in students)
    mean = (first + second).mean(0).clamp_min(1e-8) / 2
    loss: Tensor = BALANCE * (mean * mean.log()).sum() - (first - second).abs().sum(1).mean()
    return loss


def _loss(model: nn.Module, batch: Batch, _: torch.Generator) -> Tensor:
    return l1_loss(model(batch[0]), batch[1])


def rows(found: dict[str, Any]) -> list[Row]:
    """What a generator adds to the share of the victim's accuracy."""
    return [
        of_median(
            f"{name}: gain of a generator", [_gain(cell) for cell in cells], f"{found['budgets'][name]:,} queries"
        )
        for name, cells in by_group(found["cells"]).items()
    ]
