"""What the generator attacks share: one count of queries, one checkpoint, one detector of collapse.

A generator and a student take turns; between two turns the whole state is in the networks, their optimizers and a few
generators of random numbers. `Game` saves exactly that, so a killed attack goes on as if nothing had happened.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from leakmeter.errors import BudgetExhausted, NotApplicable, UsageError
from leakmeter.evaluation.score import predict
from leakmeter.extraction.base import Attack, AttackJob, CurvePoint, student_name
from leakmeter.extraction.findings import Findings, class_counts, class_entropy
from leakmeter.oracle.answer import Answer
from leakmeter.oracle.oracle import Oracle
from leakmeter.oracle.view import View
from leakmeter.victims.spec import VictimSpec


class Part(Protocol):
    """A network or an optimizer."""

    def state_dict(self) -> dict[str, Any]:
        """Its state."""

    def load_state_dict(self, state_dict: Any) -> object:
        """Takes a state back."""


class GameAttack(Attack):
    """An attack that trains a generator of images against its student."""

    student: str | None = None
    """A model's name; None: lenet."""

    def check(self, spec: VictimSpec, view: View) -> None:
        """Any view; the inputs must be images in a box, for that is what generators make."""
        super().check(spec, view)
        if len(spec.input_shape) != 3 or spec.low is None or spec.high is None:
            limits = "no limits" if spec.low is None or spec.high is None else "limits"
            raise NotApplicable(
                "an attack that trains a generator needs images with a lowest and a highest value, "
                f"got inputs of shape {spec.input_shape} with {limits}; use the attack 'procedural'"
            )


class Game:
    """Counts, observes and saves an attack that alternates. Restores itself when a checkpoint is there."""

    def __init__(
        self, attack: GameAttack, oracle: Oracle, job: AttackJob, parts: dict[str, Part], draws: torch.Generator
    ) -> None:
        if not job.stops:
            raise UsageError("an attack that trains a generator needs an end; give the oracle a budget")
        self.attack, self.oracle, self.job, self._parts, self._draws = attack, oracle, job, parts, draws
        self.asked = 0
        self.turns = 0
        self._counts = torch.zeros(oracle.spec.classes)
        self.foreseen = 0.0
        """The share of the last answers that the student had foreseen."""
        self._foreseen, self._losses = torch.zeros(2), torch.zeros(2)
        self._last: Tensor | None = None
        self._checkpoint = job.checkpoint("game")
        job.notes["answers"] = []
        self._restore()

    def play(self, turn: Callable[[float], None], cost: int, student: nn.Module) -> tuple[nn.Module, Findings]:
        """Takes turns of `cost` queries while they fit; each is told the fraction of the attack that is over."""
        end = self.job.stops[-1]
        with self.job.progress.task(type(self.attack).__name__.lower(), end // cost) as task, suppress(BudgetExhausted):
            task.advance(self.turns)
            while self.asked + cost <= end:
                turn(self.asked / end)
                self._end_turn(student)
                task.advance()
        return self._finish(student)

    def ask(self, x: Tensor, student: nn.Module | None = None) -> Answer:
        """Asks, remembers which classes answered, and how many of them `student` had foreseen."""
        answer = self.oracle.query(x)
        self.asked += len(x)
        self._counts += class_counts(answer.labels, answer.classes)
        if student is not None:
            right = int((predict(student, x).argmax(1) == answer.labels.cpu()).sum())
            self.foreseen = right / len(x)
            self._foreseen += torch.tensor([right, len(x)])
        self._last = x
        return answer

    def lost(self, loss: Tensor) -> None:
        """Remembers the loss of a step of the student, for the mean in the notes."""
        self._losses += torch.tensor([loss.item(), 1.0])

    def _end_turn(self, student: nn.Module) -> None:
        """A point on the curve where one is wanted, a state on disk where one is due."""
        self.turns += 1
        done = self.job.curve[-1].queries if self.job.curve else 0
        if any(done < stop <= self.asked for stop in self.job.stops):
            self._observe(student)
        if self._checkpoint is not None and self._checkpoint.due():
            self._checkpoint.save(self._state())

    def _finish(self, student: nn.Module) -> tuple[nn.Module, Findings]:
        """The last point, the last queries for the contact sheet, and the classes of the last answers."""
        if not self.job.curve or self.job.curve[-1].queries < self.asked:
            self._observe(student)
        if self._last is not None:
            self.job.show_queries(self._last)
        name = student_name(self.attack.student, self.oracle.spec)
        return student.eval(), Findings(class_entropy=self.job.notes["answers"][-1]["class_entropy"], student=name)

    def _observe(self, student: nn.Module) -> None:
        spread, (right, tried) = class_entropy(self._counts), self._foreseen.tolist()
        foreseen = right / tried if tried else None
        lost, steps = self._losses.tolist()
        note = {"queries": self.asked, "class_entropy": spread, "foreseen": foreseen}
        self.job.notes["answers"].append(note | ({"loss": lost / steps} if steps else {}))
        for sums in (self._counts, self._foreseen, self._losses):
            sums.zero_()
        training = student.training
        self.job.observe(student.eval(), self.asked)
        student.train(training)

    def _state(self) -> dict[str, object]:
        return {
            "parts": {name: part.state_dict() for name, part in self._parts.items()},
            "asked": self.asked,
            "turns": self.turns,
            "position": self.oracle.position,
            "counts": self._counts,
            "foreseen": self._foreseen,
            "losses": self._losses,
            "last": self._last,
            "draws": self._draws.get_state(),
            "global": torch.get_rng_state(),
            "curve": [point.model_dump(mode="json") for point in self.job.curve],
            "notes": self.job.notes,
        }

    def _restore(self) -> None:
        state: dict[str, Any] | None = self._checkpoint.load() if self._checkpoint is not None else None
        if state is None:
            return
        for name, part in self._parts.items():
            part.load_state_dict(state["parts"][name])
        self.asked, self.turns, self._last = state["asked"], state["turns"], state["last"]
        self._counts, self._foreseen, self._losses = state["counts"], state["foreseen"], state["losses"]
        self.oracle.seek(state["position"])
        self._draws.set_state(state["draws"])
        torch.set_rng_state(state["global"])
        self.job.curve[:] = [CurvePoint.model_validate(point) for point in state["curve"]]
        self.job.notes.update(state["notes"])
