"""What every evasion attack is: hyper-parameters, and a way from a problem to candidates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict
from torch import Tensor

from leakmeter.evasion.access import Labels, WhiteBox
from leakmeter.evasion.ball import Ball, Norm
from leakmeter.evasion.goal import Goal
from leakmeter.progress import Progress

A = TypeVar("A", bound=Labels)


@dataclass(frozen=True, eq=False)
class Problem(Generic[A]):
    """One question to an attack: these examples, this goal, within this ball."""

    access: A
    x: Tensor
    goal: Goal
    ball: Ball
    seed: int
    progress: Progress


@dataclass(frozen=True, eq=False)
class Candidates:
    """What an attack proposes. The base measures it; nothing said here is believed."""

    examples: Tensor
    reasons: dict[int, str] = field(default_factory=dict)
    """Why an example may have failed, where the attack knows more than that it did."""


class EvasionAttack(BaseModel, ABC, Generic[A]):
    """Hyper-parameters of one attack, which then runs on any problem."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    norms: ClassVar[tuple[Norm, ...]] = ("linf", "l2")
    """The norms it bounds or minimises; the first is the default."""
    needs_eps: ClassVar[bool] = True
    """Whether it works inside a ball; otherwise it looks for the nearest adversarial example."""
    needs_gradients: ClassVar[bool] = True

    @abstractmethod
    def run(self, problem: Problem[A]) -> Candidates:
        """One candidate an example."""


class GradientAttack(EvasionAttack[WhiteBox], ABC):
    """Follows gradients, so it needs the module itself."""


class DecisionAttack(EvasionAttack[Labels], ABC):
    """Needs labels alone, so it also works through an oracle."""

    needs_gradients: ClassVar[bool] = False
