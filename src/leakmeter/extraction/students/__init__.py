"""Students by name: kinds of substitutes, and how each is fitted to answers.

A student is a function of a lesson: `fit(lesson) -> nn.Module` from raw inputs to one output a class. Whoever adds one
writes that function, says for which victims it is meant, and enters it in `STUDENTS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from leakmeter.extraction.base import AttackJob
from leakmeter.extraction.students.augment import Augmentation
from leakmeter.extraction.students.reading import Reading
from leakmeter.oracle.answer import Answer
from leakmeter.registry import Registry
from leakmeter.victims.spec import VictimSpec


@dataclass(frozen=True, eq=False)
class Lesson:
    """What a student is given."""

    x: Tensor
    answer: Answer
    reading: Reading
    """What to take from the answers."""
    augmentation: Augmentation
    """Which changes of a picture keep its answer."""
    spec: VictimSpec
    job: AttackJob
    seed: int
    name: str
    """Of this fit: its checkpoint is kept under it."""
    seconds: float
    """About how long it may train on one core of 2024; what it makes of them must not depend on the clock."""


class Student(ABC):
    """A kind of substitute."""

    differentiable: ClassVar[bool]
    """Whether its gradients are worth anything to an attacker."""
    spatial: bool = False
    """Whether a picture moved a little is nearly the same to it: any other is learned from turned pictures worse."""
    trained: ClassVar[bool] = False
    """Whether it is trained from a random start, by the loss of its reading: the mean of several is steadier."""

    @abstractmethod
    def suits(self, spec: VictimSpec) -> bool:
        """Whether it is worth trying on such inputs."""

    @abstractmethod
    def fit(self, lesson: Lesson) -> nn.Module:
        """A substitute that learned the lesson, in evaluation mode; the same lesson gives the same bits."""


_NETWORKS = "leakmeter.extraction.students.networks"
STUDENTS: Registry[Student] = Registry(
    "student",
    {
        "linear": "leakmeter.extraction.students.linear:LINEAR",
        "boosted": "leakmeter.extraction.students.trees:BOOSTED",
        "bagged": "leakmeter.extraction.students.trees:BAGGED",
        "kernel": "leakmeter.extraction.students.kernel:KERNEL",
        "cells": "leakmeter.extraction.students.cells:CELLS",
        "dense": f"{_NETWORKS}:DENSE",
        "lenet": f"{_NETWORKS}:LENET",
        "convolutional": f"{_NETWORKS}:CONVOLUTIONAL",
        "residual": f"{_NETWORKS}:RESIDUAL",
    },
    group="leakmeter.students",
)


def usual_students(spec: VictimSpec) -> tuple[str, ...]:
    """Those worth trying on such a victim: of tables the simplest first, of pictures what sees most of them."""
    names = [name for name in STUDENTS if STUDENTS[name].suits(spec)]
    if len(spec.input_shape) == 3:
        names.sort(key=lambda name: _PICTURES.index(name) if name in _PICTURES else len(_PICTURES))
    return tuple(names)


def told_apart(student: str, ways: Sequence[Reading]) -> list[Reading]:
    """The ways to read an answer that make a difference to a student: most make numbers of probabilities anyway."""
    return [way for way in ways if way != "probs" or STUDENTS[student].trained]


_PICTURES = ("residual", "lenet", "convolutional", "dense", "linear")
