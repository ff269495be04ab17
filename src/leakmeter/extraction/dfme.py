"""Data-free model extraction (Truong et al. 2021): a generator looks for inputs on which student and victim differ.

The victim gives no gradient, so the generator's is estimated from forward differences on the image before squashing.
All evaluations of a step go to the oracle in one call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from leakmeter.compute import prefer_channels_last
from leakmeter.extraction.base import AttackJob
from leakmeter.extraction.findings import Findings
from leakmeter.extraction.game import Game, GameAttack, Part
from leakmeter.extraction.memory import Memory
from leakmeter.extraction.targets import answered_logits
from leakmeter.models import make_generator
from leakmeter.models.generators.base import Generator
from leakmeter.oracle.oracle import Oracle
from leakmeter.seeds import derive, private_randomness, stream


class Dfme(GameAttack):
    """Generator against student; ℓ1 on recovered logits, or KL to compare with."""

    width: int = Field(default=64, ge=1)
    """Channels of the generator's last hidden layer (64 in the paper)."""
    batch: int = Field(default=256, ge=2)
    generator_steps: int = Field(default=1, ge=0)
    student_steps: int = Field(default=5, ge=1)
    replays: int = Field(default=0, ge=0)
    """Further student steps a turn on the last answers, at no query (as in MAZE; the paper has none)."""
    memory: int = Field(default=20_000, ge=1)
    """Answers kept for the replays."""
    directions: int = Field(default=1, ge=1)
    """m: random directions of one gradient estimate."""
    epsilon: float = Field(default=1e-3, gt=0)
    loss: Literal["l1", "kl"] = "l1"
    student_optimizer: Literal["sgd", "adam"] = "sgd"
    """SGD is the paper's, for ResNets; networks without batch normalisation learn with Adam and 2e-3."""
    student_lr: float = Field(default=0.1, gt=0)
    momentum: float = Field(default=0.9, ge=0, lt=1)
    weight_decay: float = Field(default=5e-4, ge=0)
    generator_lr: float = Field(default=1e-4, gt=0)
    milestones: tuple[float, ...] = (0.1, 0.3, 0.5)
    """Fractions of the attack at which both learning rates drop."""
    decay: float = Field(default=0.3, gt=0, le=1)

    def run(self, oracle: Oracle, job: AttackJob) -> tuple[nn.Module, Findings]:
        """Turns of `generator_steps` and `student_steps` until the next turn would not fit; the rest goes unasked."""
        with private_randomness(derive(job.seed, "dfme"), job.device):
            student = job.student(self.student, oracle).train()
            generator = make_generator(
                "dfme",
                oracle.spec.input_shape,
                seed=job.seed,
                width=self.width,
                low=oracle.spec.low,
                high=oracle.spec.high,
            ).to(job.device)
            return _Duel(self, student, generator, oracle, job).play()

    def optimizer(self, student: nn.Module) -> torch.optim.Optimizer:
        """The student's."""
        if self.student_optimizer == "adam":
            return torch.optim.Adam(student.parameters(), lr=self.student_lr, fused=True)
        return torch.optim.SGD(
            student.parameters(),
            lr=self.student_lr,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            fused=True,
        )

    @property
    def turn(self) -> int:
        """Queries of one turn."""
        return self.batch * (self.generator_steps * (self.directions + 1) + self.student_steps)


class _Duel:
    """The two networks with their optimizers."""

    def __init__(self, attack: Dfme, student: nn.Module, generator: Generator, oracle: Oracle, job: AttackJob) -> None:
        self.attack, self.student, self.generator = attack, student, generator
        generator.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        prefer_channels_last(student, torch.zeros(1, *oracle.spec.input_shape, device=job.device))
        self.draws = stream(job.seed, "dfme", device=job.device)
        self.row_loss = ROW_LOSSES[attack.loss]
        self.student_optimizer = attack.optimizer(student)
        self.generator_optimizer = torch.optim.Adam(generator.parameters(), lr=attack.generator_lr, fused=True)
        self.memory = Memory(attack.memory)
        parts: dict[str, Part] = {
            "student": student,
            "generator": generator,
            "student_optimizer": self.student_optimizer,
            "generator_optimizer": self.generator_optimizer,
            "memory": self.memory,
        }
        self.game = Game(attack, oracle, job, parts, self.draws)

    def play(self) -> tuple[nn.Module, Findings]:
        return self.game.play(self._turn, self.attack.turn, self.student)

    def _turn(self, done: float) -> None:
        self._set_rates(done)
        for _ in range(self.attack.generator_steps):
            self._generator_step()
        self._student_steps()

    def _set_rates(self, done: float) -> None:
        factor = self.attack.decay ** sum(done >= milestone for milestone in self.attack.milestones)
        for optimizer, lr in (
            (self.student_optimizer, self.attack.student_lr),
            (self.generator_optimizer, self.attack.generator_lr),
        ):
            for group in optimizer.param_groups:
                group["lr"] = lr * factor

    def _generator_step(self) -> None:
        image = self.generator(self._noise(self.attack.batch))
        gradient = forward_difference(
            self._disagreement, image.detach(), self.attack.directions, self.attack.epsilon, self.draws
        )
        self.generator_optimizer.zero_grad(set_to_none=True)
        image.backward(-gradient / len(image))  # it climbs
        self.generator_optimizer.step()

    @torch.no_grad()
    def _disagreement(self, images: Tensor) -> Tensor:
        x = self.generator.to_box(images)
        target = answered_logits(self.game.ask(x)).to(x)
        self.student.eval()
        loss = self.row_loss(self.student(x), target)
        self.student.train()
        return loss

    def _student_steps(self) -> None:
        """The generator stands still, so the batches of all steps are asked together.

        Each is generated alone: batch normalisation sees what the published loop shows it, and small arrays are faster.
        """
        with torch.no_grad():
            images = [self.generator(self._noise(self.attack.batch)) for _ in range(self.attack.student_steps)]
        x = self.generator.to_box(torch.cat(images))
        target = answered_logits(self.game.ask(x, self.student)).to(x)
        for batch in zip(*(torch.split(rows, self.attack.batch) for rows in (x, target)), strict=True):
            self._imitate(*batch)
        if self.attack.replays:
            self.memory.add(x, target)
            for _ in range(self.attack.replays):
                self._imitate(*self.memory.sample(self.attack.batch, self.draws))

    def _imitate(self, x: Tensor, target: Tensor) -> None:
        self.student_optimizer.zero_grad(set_to_none=True)
        self.row_loss(self.student(x), target).mean().backward()  # type: ignore[no-untyped-call]
        self.student_optimizer.step()

    def _noise(self, n: int) -> Tensor:
        return self.generator.noise(n, self.draws)


def forward_difference(
    function: Callable[[Tensor], Tensor], x: Tensor, m: int, epsilon: float, draws: torch.Generator
) -> Tensor:
    """Estimates the gradient of each row's value from m random directions u on the unit sphere.

    d/m · Σ (f(x + εu) - f(x)) / ε · u, all m + 1 values in one call of `function`. Unbiased as ε goes to 0.
    """
    directions = torch.randn(m, *x.shape, generator=draws, device=x.device, dtype=x.dtype)
    directions /= directions.flatten(2).norm(dim=2).reshape(m, len(x), *[1] * (x.dim() - 1))
    values = function(torch.cat([x[None], x + epsilon * directions]).flatten(0, 1)).reshape(m + 1, len(x))
    slopes = (values[1:] - values[0]) / epsilon
    return x[0].numel() / m * torch.einsum("mn,mn...->n...", slopes, directions)


def l1_rows(logits: Tensor, target: Tensor) -> Tensor:
    """Mean |s - v| over the classes, one number a row."""
    return (logits - target).abs().mean(1)


def kl_rows(logits: Tensor, target: Tensor) -> Tensor:
    """KL(V ‖ S), one number a row."""
    student, victim = logits.log_softmax(1), target.log_softmax(1)
    return (victim.exp() * (victim - student)).sum(1)


ROW_LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"l1": l1_rows, "kl": kl_rows}
