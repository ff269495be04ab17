"""The one training loop: every attack, trainer and study fits its networks here.

A loss is a function of the model, a batch (matching rows of the tensors in `data`) and a generator for whatever it
draws. Given the same seed, data and number of threads the weights come out bit for bit the same, also when the
process was killed and went on from a checkpoint.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor, nn

from leakmeter.checkpoint import Checkpoint
from leakmeter.compute import prefer_channels_last
from leakmeter.errors import Inconclusive, UsageError
from leakmeter.progress import SILENT, Progress
from leakmeter.seeds import private_randomness, stream

Batch = tuple[Tensor, ...]
Loss = Callable[[nn.Module, Batch, torch.Generator], Tensor]
Schedule = Literal["constant", "step-decay", "cyclic", "cosine"]

_CHECK_EVERY = 50  # steps between looks at the loss: each look waits for a GPU


class Recipe(BaseModel):
    """How to train: give `epochs` or `steps`, not both."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    epochs: int | None = Field(default=None, ge=0)
    steps: int | None = Field(default=None, ge=0)
    batch: int = Field(default=200, ge=1)
    optimizer: Literal["sgd", "adam", "adamw"] = "adam"
    lr: float = Field(default=1e-3, gt=0)
    momentum: float = Field(default=0.9, ge=0, lt=1)
    weight_decay: float = Field(default=0.0, ge=0)
    schedule: Schedule = "constant"
    milestones: tuple[float, ...] = (0.3, 0.6, 0.8)
    """Step-decay: the fractions of the training at which the rate drops (DFME appendix A.2)."""
    decay: float = 0.2
    """Step-decay: what the rate is multiplied by at each milestone."""
    warmup: float = 0.3
    """Cyclic: the fraction of the training spent climbing to the highest rate."""

    @model_validator(mode="after")
    def _one_length(self) -> Recipe:
        if (self.epochs is None) == (self.steps is None):
            raise ValueError("expected one of epochs and steps, got both or neither")
        return self

    def total_steps(self, n: int) -> int:
        """How many updates this makes over `n` examples."""
        if self.steps is not None:
            return self.steps
        assert self.epochs is not None
        return self.epochs * max(1, n // self.batch)

    def rate(self, done: float) -> float:
        """The learning rate when the fraction `done` of the training is over."""
        if self.schedule == "constant":
            return self.lr
        if self.schedule == "step-decay":
            return self.lr * self.decay ** sum(done >= milestone for milestone in self.milestones)
        if self.schedule == "cosine":
            return self.lr * 0.5 * (1 + math.cos(math.pi * done))
        if done < self.warmup:
            return self.lr * (0.04 + 0.96 * done / self.warmup)
        return self.lr * max(1e-4, (1 - done) / (1 - self.warmup))

    def make_optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        """The optimizer over the model's parameters."""
        if self.optimizer == "sgd":
            return torch.optim.SGD(
                model.parameters(), lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay
            )
        kind = torch.optim.Adam if self.optimizer == "adam" else torch.optim.AdamW
        fused = all(each.device.type in ("cpu", "cuda") for each in model.parameters())  # one pass instead of ten
        return kind(model.parameters(), lr=self.lr, weight_decay=self.weight_decay, fused=fused)


def fit(
    model: nn.Module,
    data: Batch,
    loss: Loss,
    recipe: Recipe,
    *,
    seed: int,
    epoch: Tensor | None = None,
    progress: Progress = SILENT,
    title: str = "training",
    checkpoint: Checkpoint | None = None,
) -> nn.Module:
    """Trains `model` in place on rows of `data` and returns it in evaluation mode.

    An epoch shows each row once, or the rows that `epoch` lists, some of them perhaps more than once.
    """
    n = len(data[0])
    if n == 0 or any(len(column) != n for column in data):
        raise UsageError(f"expected columns of one equal length above 0, got lengths {[len(c) for c in data]}")
    total = recipe.total_steps(n)
    device = next(model.parameters()).device
    if data[0].dim() == 4:
        prefer_channels_last(model, data[0][:1].to(device))
    optimizer = recipe.make_optimizer(model)
    order, draws = stream(seed, "order"), stream(seed, "draws", device=device)
    epoch = torch.arange(n) if epoch is None else epoch
    batches = _Batches(len(epoch), recipe.batch, order)
    model.train()
    with private_randomness(seed, device):
        done = _restore(checkpoint, model, optimizer, batches, draws)
        with progress.task(title, total) as task:
            task.advance(done)
            for step in range(done, total):
                for group in optimizer.param_groups:
                    group["lr"] = recipe.rate(step / total)
                rows = epoch[batches.next()]
                batch = tuple(column[rows].to(device) for column in data)
                optimizer.zero_grad(set_to_none=True)
                value = loss(model, batch, draws)
                value.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                last = step + 1 == total
                if last or step % _CHECK_EVERY == 0:
                    _check(value, step)
                if checkpoint is not None and (last or checkpoint.due()):
                    checkpoint.save(_state(step + 1, model, optimizer, batches, draws))
                task.advance()
    return model.eval()


class _Batches:
    """Endless shuffled rows, each once an epoch; its whole state is two tensors and a number."""

    def __init__(self, n: int, size: int, generator: torch.Generator) -> None:
        self.n, self.size, self.generator = n, min(n, size), generator
        self.order, self.at = torch.randperm(n, generator=generator), 0

    def next(self) -> Tensor:
        if self.at + self.size > self.n:
            self.order, self.at = torch.randperm(self.n, generator=self.generator), 0
        self.at += self.size
        return self.order[self.at - self.size : self.at]


def _check(value: Tensor, step: int) -> None:
    if not torch.isfinite(value):
        raise Inconclusive(f"training diverged: the loss is {value.item()} at step {step}; lower the learning rate")


def _state(
    step: int, model: nn.Module, optimizer: torch.optim.Optimizer, batches: _Batches, draws: torch.Generator
) -> dict[str, object]:
    return {
        "step": step,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "order": batches.order,
        "at": batches.at,
        "order_generator": batches.generator.get_state(),
        "draws": draws.get_state(),
        "global": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state(draws.device) if draws.device.type == "cuda" else None,
    }


def _restore(
    checkpoint: Checkpoint | None,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: _Batches,
    draws: torch.Generator,
) -> int:
    state = checkpoint.load() if checkpoint is not None else None
    if state is None:
        return 0
    model.load_state_dict(state["model"])  # type: ignore[arg-type]
    optimizer.load_state_dict(state["optimizer"])  # type: ignore[arg-type]
    batches.order, batches.at = state["order"], state["at"]  # type: ignore[assignment]
    batches.generator.set_state(state["order_generator"])  # type: ignore[arg-type]
    draws.set_state(state["draws"])  # type: ignore[arg-type]
    torch.set_rng_state(state["global"])  # type: ignore[arg-type]
    if draws.device.type == "cuda":
        torch.cuda.set_rng_state(state["cuda"], draws.device)  # type: ignore[arg-type]
    return int(state["step"])  # type: ignore[call-overload,no-any-return]
