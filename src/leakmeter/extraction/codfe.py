"""CoDFe (confident data-free model stealing): a generator that helps the student instead of fighting it.

Algorithm 1: a fixed set of noise; in each round its images are asked once, the student learns their answers in several
iterations, then the generator learns to make the student confident. As published it stalls on the classes that the
untrained generator happens to hit, because confidence never asks for another class. `balance`, `memory` and `restart`
are our additions that mend it; `Codfe(**LITERAL)` has none. docs/datafree.md tells the difference in numbers.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F  # noqa: N812
from pydantic import Field
from torch import Tensor, nn

from leakmeter.extraction.base import AttackJob
from leakmeter.extraction.findings import Findings
from leakmeter.extraction.game import Game, GameAttack, Part
from leakmeter.extraction.memory import Memory
from leakmeter.extraction.targets import answered_probs
from leakmeter.models import make_generator
from leakmeter.models.generators.base import Generator
from leakmeter.oracle.oracle import Oracle
from leakmeter.seeds import derive, private_randomness, stream
from leakmeter.victims.spec import VictimSpec

LITERAL: dict[str, Any] = {"generator": "codfe", "balance": 0.0, "memory": 0, "restart": 2.0}
"""The options of the algorithm as published."""


class Codfe(GameAttack):
    """Student and generator in turns, over one noise set."""

    noise: int = Field(default=1000, ge=2)
    """M: vectors of the noise set, all asked in every round."""
    batch: int = Field(default=100, ge=2)
    student_iterations: int = Field(default=60, ge=1)
    generator_iterations: int = Field(default=20, ge=1)
    student_lr: float = Field(default=1e-3, gt=0)
    generator_lr: float = Field(default=1e-3, gt=0)
    generator: Literal["codfe", "dfme"] = "dfme"
    """Its network: the light one, or DFME's, whose last layer keeps the images of a batch different from the start."""
    width: int = Field(default=64, ge=1)
    """Channels of the generator."""
    balance: float = Field(default=1.0, ge=0)
    """Weight of the class balance: every noise vector has a class to become (ours; 0: the paper)."""
    memory: int = Field(default=20_000, ge=0)
    """Answers of earlier rounds that the student goes on learning from (ours; 0: the paper, only the last round)."""

    restart: float = Field(default=0.98, gt=0)
    """Once the student foresees this share of a round's answers, the generator starts anew (ours; above 1: never)."""

    def run(self, oracle: Oracle, job: AttackJob) -> tuple[nn.Module, Findings]:
        """Rounds until the next would not fit."""
        with private_randomness(derive(job.seed, "codfe"), job.device):
            student = job.student(self.student, oracle).train()
            return _Rounds(self, student, oracle, job).play()

    def make_generator(self, spec: VictimSpec, seed: int) -> Generator:
        """A fresh one for this victim."""
        box = {"low": spec.low, "high": spec.high}
        return make_generator(self.generator, spec.input_shape, seed=seed, width=self.width, **box)


class _Rounds:
    def __init__(self, attack: Codfe, student: nn.Module, oracle: Oracle, job: AttackJob) -> None:
        self.attack, self.student = attack, student
        self.generator = generator = attack.make_generator(oracle.spec, job.seed).to(job.device)
        self.draws = stream(job.seed, "codfe", device=job.device)
        self.z = generator.noise(attack.noise, stream(job.seed, "codfe", "noise set", device=job.device))
        self.student_optimizer = torch.optim.Adam(student.parameters(), lr=attack.student_lr)
        self.generator_optimizer = torch.optim.Adam(generator.parameters(), lr=attack.generator_lr)
        self.known = Memory(max(attack.memory, attack.noise))
        parts: dict[str, Part] = {
            "student": student,
            "generator": generator,
            "student_optimizer": self.student_optimizer,
            "generator_optimizer": self.generator_optimizer,
            "known": self.known,
        }
        self.game = Game(attack, oracle, job, parts, self.draws)

    def play(self) -> tuple[nn.Module, Findings]:
        return self.game.play(self._round, self.attack.noise, self.student)

    def _round(self, _: float) -> None:
        self._ask()
        if self.game.foreseen >= self.attack.restart:
            self._restart()
        for _ in range(self.attack.student_iterations):
            self._student_step()
        for _ in range(self.attack.generator_iterations):
            self._generator_step()

    @torch.no_grad()
    def _ask(self) -> None:
        x = self.generator.to_box(self.generator(self.z))
        self.known.add(x, answered_probs(self.game.ask(x, self.student)).to(x))

    def _restart(self) -> None:
        """Other images of the same noise: nothing more is learned from these."""
        job = self.game.job
        fresh = self.attack.make_generator(self.game.oracle.spec, derive(job.seed, "restart", self.game.turns))
        self.generator.load_state_dict(fresh.state_dict())
        self.generator_optimizer.state.clear()

    def _student_step(self) -> None:
        x, target = self.known.sample(self.attack.batch, self.draws)
        self.student_optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(self.student(x), target)
        loss.backward()  # type: ignore[no-untyped-call]
        self.student_optimizer.step()
        self.game.lost(loss)

    def _generator_step(self) -> None:
        rows = torch.randint(len(self.z), (self.attack.batch,), generator=self.draws, device=self.z.device)
        z = self.z[rows]
        logs = self.student(self.generator.to_box(self.generator(z))).log_softmax(1)
        loss = -logs.amax(1).mean() + self.attack.balance * F.nll_loss(logs, wanted_classes(z, logs.shape[1]))
        self.generator_optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.generator_optimizer.step()


def wanted_classes(z: Tensor, classes: int) -> Tensor:
    """The class a noise vector should become: its highest coordinate among the first ones, so all are equally likely.

    A function of the noise that is easy to compute is easy for the generator to learn. Unlike an entropy bonus, cross
    entropy to a wanted class does not fade when the student is already sure of another.
    """
    return z[:, :classes].argmax(1)
