"""What an attack found, in the only form that the verdict reads."""

from __future__ import annotations

import math

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from leakmeter.extraction.certificate import CopyCertificate

COLLAPSED = 0.2
"""Answers with less than this share of the highest class entropy come from queries that collapsed onto a few classes.

In the committed studies the last answers of every attack that collapsed lie at 0.00, and all others above 0.37. A
higher line would take a model whose second class is rare for a collapse: 3 % of two classes are 0.2, 11 % are 0.5."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Trial(_Frozen):
    """One of the ways that a choosing attack tried."""

    name: str
    held_out: float
    """Agreement with the victim on answers that the attack held back from it."""
    chosen: bool


class Findings(_Frozen):
    """What an attack says of its copy. Whatever can be measured is measured by `extract`, not taken from here."""

    class_entropy: float | None
    """Entropy of the classes of the (last) answers, as a share of the highest; None: not known."""
    student: str | None = None
    """The model's name by which the copy can be built; None: it is a network of the attack's own."""
    complete: bool = False
    """Whether nothing is left to explain: the attack believes that it holds the whole model."""
    missing: str | None = None
    """Why it does not, though it set out to, in a sentence."""
    all_asked: bool = False
    """Whether every input there is was asked, so that a larger budget would buy nothing."""
    units: int | None = None
    """Hidden units, or leaves, found."""
    tried: tuple[Trial, ...] = ()
    """What a choosing attack tried."""
    certificate: CopyCertificate | None = None
    """Filled in by `extract`, on the evaluation account."""

    @property
    def collapsed(self) -> bool:
        """Whether the queries ended on a few classes only, so that a poor copy says nothing about the victim."""
        return self.class_entropy is not None and self.class_entropy < COLLAPSED and not self.exact

    @property
    def exact(self) -> bool:
        """Whether the copy is the model: the attack says that nothing is missing, and the certificate agrees."""
        return self.complete and self.certificate is not None and self.certificate.exact


def class_entropy(counts: Tensor) -> float | None:
    """Entropy of classes counted, as a share of the highest: 1 is an even spread, 0 one class; None: none counted."""
    if counts.sum() == 0 or len(counts) < 2:
        return None
    p = counts / counts.sum()
    return float(torch.special.entr(p).sum()) / math.log(len(counts))


def class_counts(labels: Tensor, classes: int) -> Tensor:
    """How many answers each class got; a single score names two classes."""
    return labels.cpu().bincount(minlength=max(2, classes))
