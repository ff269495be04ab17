"""What an attack wants of each example, and the losses that say how near it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from leakmeter.errors import UsageError

Target = int | Tensor | Literal["second"] | None


@dataclass(frozen=True, eq=False)
class Goal:
    """Classes to leave or, in a targeted attack, to reach."""

    classes: Tensor
    targeted: bool

    def reached(self, labels: Tensor) -> Tensor:
        """Which examples with these predicted labels are broken."""
        return (labels == self.classes) == self.targeted

    def rows(self, index: Tensor | slice) -> Goal:
        """The goals of some examples."""
        return Goal(self.classes[index], self.targeted)


def aim(y: Tensor, target: Target, logits: Tensor | None, classes: int) -> Goal:
    """The goal that the caller describes.

    Args:
        y: the true classes.
        target: the class or classes to reach; None: leave the true ones.
        logits: the model's, for the originals; None where it shows labels alone.
        classes: how many classes the model knows.
    """
    y = _checked_classes("y", y, len(y), classes)
    if target is None:
        return Goal(y, targeted=False)
    if isinstance(target, str):
        if target != "second":
            raise UsageError(f"expected a class, one class an example or 'second' as target, got '{target}'")
        if logits is None:
            raise UsageError("target='second' needs scores, and an oracle's labels are none; name the target classes")
        return Goal(logits.scatter(1, y[:, None], -torch.inf).argmax(1), targeted=True)
    wanted = torch.full_like(y, target) if isinstance(target, int) else target.to(y.device)
    wanted = _checked_classes("target", wanted, len(y), classes)
    if bool((same := wanted == y).any()):
        raise UsageError(f"expected targets other than the true classes, got {int(same.sum())} equal; leave those out")
    return Goal(wanted, targeted=True)


def _checked_classes(name: str, values: Tensor, n: int, classes: int) -> Tensor:
    if values.dtype.is_floating_point or values.dtype.is_complex or values.shape != (n,):
        raise UsageError(f"expected {name} as {n} whole numbers, got {values.dtype} of shape {tuple(values.shape)}")
    if bool(((values < 0) | (values >= classes)).any()):
        raise UsageError(f"expected {name} from 0 to {classes - 1}, got {values.min().item()} to {values.max().item()}")
    return values.long()


Loss = Callable[[Tensor, Goal], Tensor]
"""Logits and goal to one number an example, the higher the nearer to the goal."""


def cross_entropy(logits: Tensor, goal: Goal) -> Tensor:
    """How unlikely the class to leave is, or how likely the class to reach."""
    surprise = nn.functional.cross_entropy(logits, goal.classes, reduction="none")
    return -surprise if goal.targeted else surprise


def margin(logits: Tensor, goal: Goal) -> Tensor:
    """By how much the goal's side wins: above 0 the example is broken (Carlini & Wagner 2017, section V.A, f6)."""
    own = logits.gather(1, goal.classes[:, None])[:, 0]
    other = logits.scatter(1, goal.classes[:, None], -torch.inf).amax(1)
    return own - other if goal.targeted else other - own


LOSSES: dict[str, Loss] = {"ce": cross_entropy, "margin": margin}
