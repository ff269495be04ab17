"""How an attack reaches a model: with gradients into a module, or by labels alone through an oracle."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from leakmeter.compute import evaluating
from leakmeter.errors import Inconclusive, UsageError
from leakmeter.evasion.goal import Goal, Loss
from leakmeter.oracle.oracle import Oracle


class Labels(Protocol):
    """All that a decision-based attack may see."""

    def labels(self, x: Tensor) -> Tensor:
        """The predicted class of each row."""


@dataclass(frozen=True, eq=False)
class ModelFacts:
    """What is known of the model before the attack."""

    classes: int
    logits: Tensor | None
    """Of the originals; None where labels are all the model shows."""


class Access(Labels, Protocol):
    """What the base needs of a model besides."""

    def admit(self, x: Tensor) -> Tensor:
        """The inputs in the model's type and on its device."""

    def opened(self) -> AbstractContextManager[None]:
        """Makes the model ready for the length of a `with` block."""

    def look(self, x: Tensor) -> ModelFacts:
        """Checks the model on the originals."""

    def judge(self, x: Tensor) -> Tensor:
        """The labels that decide on success, at no cost to the attack."""

    def spent(self) -> int:
        """Queries that the attack has paid for so far."""


@dataclass(frozen=True, eq=False)
class OracleLabels:
    """The labels that an oracle shows, each row counted."""

    oracle: Oracle

    def labels(self, x: Tensor) -> Tensor:
        """One query a row."""
        return self.oracle.query(x).labels.to(x.device)

    def admit(self, x: Tensor) -> Tensor:
        """The inputs in the victim's type."""
        return x.to(self.oracle.spec.dtype)

    def opened(self) -> AbstractContextManager[None]:
        """An oracle is always ready."""
        return nullcontext()

    def look(self, x: Tensor) -> ModelFacts:  # noqa: ARG002
        """What the specification says: looking would cost queries."""
        return ModelFacts(max(2, self.oracle.spec.classes), None)

    def judge(self, x: Tensor) -> Tensor:
        """The owner's own look, on the evaluation account."""
        return self.oracle.judge(x).labels.to(x.device)

    def spent(self) -> int:
        """Rows on the attack's account."""
        return self.oracle.ledger.spent()


@dataclass(frozen=True, eq=False)
class WhiteBox:
    """A module with its gradients; `eot` draws of a randomised module are averaged into one prediction."""

    module: nn.Module
    eot: int = 1
    batch: int = 256
    """Rows the module sees at once, so that memory does not grow with the number of examples."""

    def logits(self, x: Tensor) -> Tensor:
        """One row of logits an example, without a gradient."""
        with torch.no_grad():
            return _join([self._predict(x[rows]) for rows in self._chunks(len(x))])

    def labels(self, x: Tensor) -> Tensor:
        """The predicted class of each row."""
        return self.logits(x).argmax(1)

    def gradient(self, x: Tensor, goal: Goal, loss: Loss) -> tuple[Tensor, Tensor]:
        """The logits, and the gradient of the loss by the input; the module's own gradients stay as they are."""
        parts = [self._gradient(x[rows], goal.rows(rows), loss) for rows in self._chunks(len(x))]
        return _join([logits for logits, _ in parts]), _join([gradient for _, gradient in parts])

    def admit(self, x: Tensor) -> Tensor:
        """The inputs in the module's type and on its device."""
        return x.to(next((p for p in self.module.parameters() if p.dtype.is_floating_point), x))

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Evaluation mode, and gradients even where the caller switched them off."""
        with evaluating(self.module), torch.inference_mode(False), torch.enable_grad():
            yield

    def look(self, x: Tensor) -> ModelFacts:
        """The logits of the originals, after a check that they are logits."""
        logits = self.logits(x)
        if logits.dim() != 2 or logits.shape[0] != len(x) or logits.shape[1] < 2:
            raise UsageError(f"expected logits of shape ({len(x)}, classes), got {tuple(logits.shape)}")
        if not bool(torch.isfinite(logits).all()):
            raise Inconclusive("the model answers the original inputs with NaN or infinity; repair the model first")
        return ModelFacts(logits.shape[1], logits)

    def judge(self, x: Tensor) -> Tensor:
        """The module's own labels."""
        return self.labels(x)

    def spent(self) -> int:
        """A module at hand costs no queries."""
        return 0

    def _gradient(self, x: Tensor, goal: Goal, loss: Loss) -> tuple[Tensor, Tensor]:
        x = x.detach().requires_grad_()
        logits = self._predict(x)
        if not logits.requires_grad:
            raise UsageError("expected a model with gradients by its input, got one without; use the attack 'boundary'")
        (gradient,) = torch.autograd.grad(loss(logits, goal).sum(), x)
        return logits.detach(), gradient

    def _predict(self, x: Tensor) -> Tensor:
        """Logits; with `eot`, the logarithm of the mean probabilities (Salman et al. 2019, section 2.2)."""
        if self.eot == 1:
            return self.module(x)  # type: ignore[no-any-return]
        draws = self.module(x.repeat(self.eot, *[1] * (x.dim() - 1)))
        log_probs = draws.log_softmax(1).view(self.eot, len(x), -1)
        return torch.logsumexp(log_probs, 0) - math.log(self.eot)

    def _chunks(self, n: int) -> Iterator[slice]:
        size = max(1, self.batch // self.eot)
        return (slice(start, start + size) for start in range(0, n, size))


def _join(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)
