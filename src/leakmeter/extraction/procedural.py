"""Queries drawn by code: no data, no generator to train, and far fewer queries than a trained one needs.

Pictures of strokes, shapes and textures (rows of a table for a victim of features) are asked; where answers
are not exact, in rounds: blindly at first, then the close calls of a student that learned the answers so far, classes
with few answers before the others. A committee of students learns all answers and teaches one student on as many fresh
pictures as we like, which cost no query. Many exact answers need no teacher: one student learns them for longer.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
import torch.nn.functional as F  # noqa: N812
from pydantic import Field
from torch import Tensor, nn

from leakmeter.errors import BudgetExhausted, UsageError
from leakmeter.evaluation.score import predict
from leakmeter.extraction.base import Attack, AttackJob, student_name
from leakmeter.extraction.findings import Findings, class_counts, class_entropy
from leakmeter.extraction.makers import draw
from leakmeter.extraction.makers.tabular import tabular
from leakmeter.extraction.targets import answered_logits, interval_loss, intervals, l1_loss
from leakmeter.oracle.answer import Answer
from leakmeter.oracle.oracle import Oracle
from leakmeter.seeds import derive, stream
from leakmeter.training.loop import Batch, Loss, Recipe, fit
from leakmeter.victims.spec import VictimSpec

GREY = {"strokes": 0.4, "blobs": 0.45, "silhouettes": 0.15}
COLOUR = {"leaves": 0.7, "textures": 0.15, "blobs": 0.15}
_FEW, _FEW_LABELS = 1000, 20_000
_BLOCK = 2000
"""Queries chosen at once: their candidates must fit in memory, and the next block knows their classes."""


class Procedural(Attack):
    """Draw, ask, learn what to ask next; learn, teach."""

    student: str | None = None
    """A model's name; None: lenet for images, mlp for features."""
    makers: dict[str, float] | None = None
    """Weights of the image makers; None: strokes and shapes for one channel, dead leaves for more."""
    levels: dict[int, tuple[float, ...]] = Field(default_factory=dict)
    """Tables: columns that take only these values."""
    onehot: tuple[tuple[int, ...], ...] = ()
    """Tables: groups of columns of which one is 1."""
    committee: int = Field(default=3, ge=1)
    """Students that learn from the answers."""
    rounds: int = Field(default=4, ge=1)
    """Rounds in which the queries up to a stop are asked: the first is drawn blindly, the others are chosen.

    Exact answers are asked for in one: they tell as much anywhere, while a label tells most beside a boundary."""
    choice: int = Field(default=8, ge=1)
    """Candidates drawn for each query chosen."""
    jitter: float = Field(default=1.0, ge=0)
    """Strength of the small turns, shifts and zooms under which an answer is taken to stay the same; 0: none.

    It fades above a thousand answers, or 20,000 labels: the less is known, the more a neighbour's answer is worth."""
    enough: int = Field(default=5000, ge=1)
    """Exact answers from which the copy is one student that learned them in all the steps of the committee."""
    lessons: int = Field(default=10_000, ge=0)
    """Fresh pictures on which the committee teaches the final student; 0: the first member is the copy."""
    scout: Recipe = Recipe(steps=1500, batch=128, lr=3e-3, schedule="cyclic")
    """How the student that chooses learns, afresh in every round."""
    learn: Recipe = Recipe(steps=4000, batch=128, lr=3e-3, schedule="cyclic")
    teach: Recipe = Recipe(steps=5000, batch=128, lr=3e-3, schedule="cyclic")

    def run(self, oracle: Oracle, job: AttackJob) -> tuple[nn.Module, Findings]:
        """One fresh student for each stop, from everything asked up to there."""
        if not job.stops:
            raise UsageError("the attack 'procedural' needs an end; give the oracle a budget")
        return _Campaign(self, oracle, job).play()

    def draw(self, n: int, spec: VictimSpec, draws: torch.Generator) -> Tensor:
        """Queries in the victim's box; where it is open, pictures of zero mean and about unit spread."""
        if len(spec.input_shape) == 1:
            return tabular(n, spec.low, spec.high, spec.features, draws, levels=self.levels, onehot=self.onehot)
        if len(spec.input_shape) != 3:
            return spec.sample(n, draws).float()
        channels, height, width = spec.input_shape
        makers = self.makers or (GREY if channels == 1 else COLOUR)
        return spec.box.from_unit(draw(makers, n, (channels, height, width), draws))


class _Campaign:
    """What was asked so far, and what to do with it."""

    def __init__(self, attack: Procedural, oracle: Oracle, job: AttackJob) -> None:
        self.attack, self.oracle, self.job = attack, oracle, job
        self.draws = stream(job.seed, "procedural")
        self.x = torch.empty(0, *oracle.spec.input_shape)
        self.answers: list[Answer] = []
        self.exhausted = False

    def play(self) -> tuple[nn.Module, Findings]:
        for stop in self.job.stops:
            start, rounds = len(self.x), 1 if self.oracle.view.tells_logits else self.attack.rounds
            for turn in range(rounds):
                goal = start + math.ceil((stop - start) * (turn + 1) / rounds)
                if turn == 0:
                    self._ask(self._draw(goal - start))
                else:
                    self._ask_chosen(goal, f"{stop}-scout-{turn}")
            student = self._copy(stop)
            self.job.observe(student, len(self.x))
            if self.exhausted:
                break
        self.job.show_queries(self.x[torch.randperm(len(self.x), generator=self.draws)])
        counts = class_counts(Answer.join(self.answers).labels, self.oracle.spec.classes)
        name = student_name(self.attack.student, self.oracle.spec)
        return student, Findings(class_entropy=class_entropy(counts), student=name)

    def _ask(self, x: Tensor) -> None:
        try:
            answer = self.oracle.query_up_to_budget(x)
        except BudgetExhausted:
            self.exhausted = True
            if not self.answers:
                raise
            return
        self.exhausted = len(answer) < len(x)
        self.x, self.answers = torch.cat([self.x, x[: len(answer)]]), [*self.answers, answer]

    def _ask_chosen(self, goal: int, name: str) -> None:
        """Queries up to `goal` that a student of the answers so far finds hardest to tell."""
        if len(self.x) < goal and not self.exhausted:
            scout = self._fit(self._known(), self._answer_loss, self.attack.scout, name)
            while len(self.x) < goal and not self.exhausted:
                self._ask(self._choose(scout, min(goal - len(self.x), _BLOCK)))

    def _choose(self, scout: nn.Module, n: int) -> Tensor:
        """Of several candidates a query, close calls, always from the class that would have the fewest answers."""
        candidates = self._draw(n * self.attack.choice)
        likely = predict(scout, candidates).softmax(1).topk(2, dim=1)
        answered = Answer.join(self.answers).labels.bincount(minlength=self.oracle.spec.classes)
        return candidates[fairest(likely.indices[:, 0], -likely.values.diff(dim=1)[:, 0], answered)[:n]]

    def _draw(self, n: int) -> Tensor:
        return self.attack.draw(n, self.oracle.spec, self.draws)

    def _copy(self, stop: int) -> nn.Module:
        """A fresh student, from everything known."""
        if len(self.x) < self.attack.enough or not self.answers[0].view.tells_logits:
            return self._teach(self._learn(str(stop)), stop)
        steps = self.attack.committee * self.attack.learn.total_steps(len(self.x))
        longer = self.attack.learn.model_copy(update={"steps": steps, "epochs": None})
        return self._fit(self._known(), self._answer_loss, longer, f"{stop}-final")

    def _learn(self, name: str) -> list[nn.Module]:
        """A fresh committee that knows all answers so far."""
        data, recipe = self._known(), self.attack.learn
        return [self._fit(data, self._answer_loss, recipe, f"{name}-{i}") for i in range(self.attack.committee)]

    def _known(self) -> Batch:
        return (self.x, *_targets(Answer.join(self.answers)))

    def _teach(self, committee: list[nn.Module], stop: int) -> nn.Module:
        """The final student: the committee's mean on fresh pictures, and the answers where they are exact."""
        if self.attack.lessons == 0:
            return committee[0]
        x = torch.cat([self.x, self._draw(self.attack.lessons)])
        target = torch.stack([predict(member, x) for member in committee]).mean(0)
        target -= target.mean(1, keepdim=True)
        # what an attacker who knows a defense makes of an answer may tell less
        if self.answers[0].view.tells_logits:
            target[: len(self.x)] = answered_logits(Answer.join(self.answers)).float()
        return self._fit((x, target), self._lesson_loss, self.attack.teach, f"{stop}-final")

    def _fit(self, data: Batch, loss: Loss, recipe: Recipe, name: str) -> nn.Module:
        job = replace(self.job, seed=derive(self.job.seed, "member", name))
        return fit(
            job.student(self.attack.student, self.oracle),
            data,
            loss,
            recipe,
            seed=job.seed,
            progress=job.progress,
            title=f"student {name}",
            checkpoint=job.checkpoint(f"student-{name}"),
        )

    def _answer_loss(self, model: nn.Module, batch: Batch, draws: torch.Generator) -> Tensor:
        x, *target = batch
        few = _FEW_LABELS if target[0].dim() == 1 else _FEW
        logits = model(jittered(x, self.attack.jitter * min(1.0, few / len(self.x)), draws))
        if len(target) == 2:
            return interval_loss(logits, *target)
        if target[0].dim() == 1:
            return F.cross_entropy(logits, target[0])
        return l1_loss(logits, target[0])

    def _lesson_loss(self, model: nn.Module, batch: Batch, _: torch.Generator) -> Tensor:
        return l1_loss(model(batch[0]), batch[1])


def fairest(classes: Tensor, cost: Tensor, counts: Tensor) -> Tensor:
    """The order in which to take items so that the smallest class grows first, in each class the cheapest item."""
    by_class = cost.argsort(stable=True)
    by_class = by_class[classes[by_class].argsort(stable=True)]
    sizes = classes.bincount(minlength=len(counts))
    rank = torch.arange(len(classes), device=classes.device) - (sizes.cumsum(0) - sizes)[classes[by_class]]
    return by_class[(counts[classes[by_class]] + rank).argsort(stable=True)]


def _targets(answer: Answer) -> tuple[Tensor, ...]:
    """What there is to learn: logits, or labels, or an interval for every log-probability."""
    if answer.view.tells_logits:
        return (answered_logits(answer).float(),)
    if answer.view.kind == "labels":
        return (answer.labels,)
    low, high = intervals(answer)
    return low.float(), high.float()


def jittered(x: Tensor, strength: float, draws: torch.Generator) -> Tensor:
    """Each image turned by up to 6°, zoomed by up to 6 % and shifted by up to 2.5 %, times `strength`."""
    if strength == 0 or x.dim() != 4:
        return x
    turn, zoom_x, zoom_y, *shift = (torch.rand(5, len(x), generator=draws, device=x.device) * 2 - 1) * strength
    turn, zoom_x, zoom_y = turn * 0.1, 1 + 0.06 * zoom_x, 1 + 0.06 * zoom_y
    rows = [turn.cos() * zoom_x, -turn.sin(), 0.05 * shift[0], turn.sin(), turn.cos() * zoom_y, 0.05 * shift[1]]
    grid = F.affine_grid(torch.stack(rows, -1).reshape(-1, 2, 3), list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, align_corners=False, padding_mode="border")
