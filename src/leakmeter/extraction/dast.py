"""DaST (Zhou et al. 2020): data-free substitute training with one branch of the generator per class.

The generator is asked for images of given classes. The student imitates the victim on them; the generator is paid for
their difference, exp(-d), and for images that the student takes for the class asked for. One query per image and one
step of each network per batch.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from pydantic import Field
from torch import Tensor, nn

from leakmeter.extraction.base import AttackJob
from leakmeter.extraction.findings import Findings
from leakmeter.extraction.game import Game, GameAttack, Part
from leakmeter.extraction.targets import answered_probs
from leakmeter.models import make_generator
from leakmeter.models.generators.base import Generator
from leakmeter.oracle.answer import Answer
from leakmeter.oracle.oracle import Oracle
from leakmeter.seeds import derive, private_randomness, stream


class Dast(GameAttack):
    """DaST-P where the view shows probabilities, DaST-L where it shows labels."""

    batch: int = Field(default=500, ge=2)
    alpha: float = Field(default=0.2, ge=0)
    """Weight of the label control."""
    beta: float = Field(default=1.0, ge=0)
    """Weight of the squared difference of the probabilities (DaST-P)."""
    student_lr: float = Field(default=1e-4, gt=0)
    generator_lr: float = Field(default=1e-4, gt=0)
    width: int = Field(default=64, ge=1)
    """Channels of the generator."""

    def run(self, oracle: Oracle, job: AttackJob) -> tuple[nn.Module, Findings]:
        """One batch a turn until the next would not fit."""
        with private_randomness(derive(job.seed, "dast"), job.device):
            student = job.student(self.student, oracle).train()
            spec = oracle.spec
            box = {"low": spec.low, "high": spec.high, "classes": spec.classes}
            generator = make_generator("dast", spec.input_shape, seed=job.seed, width=self.width, **box).to(job.device)
            generator.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # a third faster on a CPU
            return _Turns(self, student, generator, oracle, job).play()


class _Turns:
    def __init__(self, attack: Dast, student: nn.Module, generator: Generator, oracle: Oracle, job: AttackJob) -> None:
        self.attack, self.student, self.generator = attack, student, generator
        self.draws = stream(job.seed, "dast", device=job.device)
        self.student_optimizer = torch.optim.Adam(student.parameters(), lr=attack.student_lr, betas=(0.5, 0.999))
        self.generator_optimizer = torch.optim.Adam(generator.parameters(), lr=attack.generator_lr, betas=(0.5, 0.999))
        parts: dict[str, Part] = {
            "student": student,
            "generator": generator,
            "student_optimizer": self.student_optimizer,
            "generator_optimizer": self.generator_optimizer,
        }
        self.game = Game(attack, oracle, job, parts, self.draws)
        classes = oracle.spec.classes
        self.wanted = torch.arange(attack.batch, device=job.device) * classes // attack.batch  # even over the classes

    def play(self) -> tuple[nn.Module, Findings]:
        return self.game.play(self._turn, self.attack.batch, self.student)

    def _turn(self, _: float) -> None:
        x = self.generator.to_box(self.generator(self.generator.noise(self.attack.batch, self.draws), self.wanted))
        answer = self.game.ask(x.detach(), self.student)
        self.student_optimizer.zero_grad(set_to_none=True)
        self._distance(self.student(x.detach()), answer).backward()  # type: ignore[no-untyped-call]
        self.student_optimizer.step()
        logits = self.student(x)
        control = F.cross_entropy(logits, self.wanted)
        self.generator_optimizer.zero_grad(set_to_none=True)
        loss = torch.exp(-self._distance(logits, answer)) + self.attack.alpha * control
        loss.backward()  # type: ignore[no-untyped-call]
        self.generator_optimizer.step()

    def _distance(self, logits: Tensor, answer: Answer) -> Tensor:
        """d: cross entropy to the label, and for probabilities their squared difference too."""
        distance = F.cross_entropy(logits, answer.labels.to(logits.device))
        if answer.view.kind == "labels":
            return distance
        return distance + self.attack.beta * F.mse_loss(logits.softmax(1), answered_probs(answer).to(logits))
