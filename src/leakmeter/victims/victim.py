"""The one face of a victim, whatever computes its answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch
from torch import Tensor, nn

from leakmeter.errors import LeakmeterError, UsageError, VictimError, first_line
from leakmeter.models.trees.ensemble import TreeEnsemble
from leakmeter.patience import PATIENCE, patient
from leakmeter.victims.explained import OwnExplanation
from leakmeter.victims.spec import VictimSpec, both_classes

T = TypeVar("T")
Charge = Callable[[int], None]
"""Counts that many rows once more, or raises BudgetExhausted: then they must not be sent."""
_NUMBERS = 2**20  # in the inputs of one batch; the layers of a network hold some hundred bytes for each


def nobody(rows: int) -> None:
    """Who pays outside an oracle, where nothing is counted."""


@dataclass(frozen=True, eq=False)
class Question:
    """What goes with the rows of one question, past whatever defenses lie before the victim."""

    noise: torch.Generator
    """Where everything random in the answer comes from."""
    charge: Charge = nobody
    """Who pays when rows are sent again: a remote victim may have answered the first time."""


def affordable(rows: int, spec: VictimSpec) -> int:
    """That many rows at once, or as many as a model of large inputs has memory for: its layers hold far more."""
    return min(rows, max(1, _NUMBERS // spec.features))


class Responder(Protocol):
    """Anything that answers: a victim, or a defense around one."""

    spec: VictimSpec
    remote: bool
    """Whether an answer may be given without our hearing of it (then a repeated question is a second query)."""
    differentiable: bool
    """Whether `respond` builds an autograd graph when its input asks for one."""
    batch: int
    """The most rows to ask at once."""

    def respond(self, x: Tensor, question: Question) -> Tensor:
        """The outputs `spec` promises, one row per input."""


class Victim:
    """A model under audit. The owner holds this handle; an attack gets only an `Oracle` in front of it."""

    remote = False
    differentiable = False
    batch = 256
    authorized_by: str | None = None
    """Who allowed the audit of a victim that is not on this machine."""
    notes: tuple[str, ...] = ()
    """What the report must say of how it is asked."""

    trees: TreeEnsemble | None = None
    """The ensemble it is, where it is one and takes inputs as they are asked: it can be explained exactly."""
    patience: float = PATIENCE
    """Seconds that it may take for one answer, where it computes in this process."""

    own_explanation: OwnExplanation | None = None
    """The explanation that its own answers hold, if they hold one."""

    def __init__(self, spec: VictimSpec) -> None:
        self.spec = spec
        self.batch = affordable(self.batch, spec)

    def respond(self, x: Tensor, question: Question) -> Tensor:
        """The model's own outputs; a failure is told as the victim's."""
        return both_classes(self._guarded(lambda: self.compute(x, question)), self.spec)

    def respond_explained(self, x: Tensor, question: Question) -> tuple[Tensor, Tensor]:
        """The same and its own explanation, [n, classes or 1, *input_shape], from one answer."""
        outputs, maps = self._guarded(lambda: self.compute_explained(x, question))
        return both_classes(outputs, self.spec), maps

    def _guarded(self, compute: Callable[[], T]) -> T:
        try:
            if self.remote:  # it has limits of its own
                return compute()
            with patient(self.patience, f"the victim {self.spec.name}"):
                return compute()
        except (LeakmeterError, KeyboardInterrupt):
            raise
        except BaseException as error:  # a model that ends the process must not end the audit, let alone with 0
            raise VictimError(
                f"the victim {self.spec.name} raised {type(error).__name__}: {first_line(error)}"
            ) from error

    def compute(self, x: Tensor, question: Question) -> Tensor:
        """Outputs for inputs already checked against the spec; one probability a row stands for two classes."""
        raise NotImplementedError

    def compute_explained(self, x: Tensor, question: Question) -> tuple[Tensor, Tensor]:
        """Outputs and own explanation, of a victim that has one."""
        raise NotImplementedError

    @property
    def white_box(self) -> nn.Module:
        """The network itself, for white-box work only: never handed to a black-box attack."""
        why = "answers over HTTP only" if self.remote else "is not one"
        raise UsageError(
            f"white-box work needs an nn.Module, and the victim {self.spec.name} {why}; make adversarial examples on a "
            "copy of it (leakmeter extract, then evade --copy) or with boundary, which only asks, and certify where "
            "the network itself is"
        )
