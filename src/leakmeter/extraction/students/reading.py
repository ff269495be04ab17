"""Ways to read an answer: as logits (ℓ1 or squared), probabilities (softened or not), what rounding left, or a label.

Whoever sees more may always look at less: every view offers the label too, so a defense that spoils the numbers does
not spoil the copy.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from leakmeter.extraction.targets import (
    answered_logits,
    answered_probs,
    interval_loss,
    intervals,
    kl_loss,
    l1_loss,
    recover_logits,
    squared_loss,
)
from leakmeter.oracle.answer import Answer
from leakmeter.oracle.view import View

Reading = Literal["logits", "squared", "softened", "probs", "intervals", "labels"]
TEMPERATURE = 4.0


def readings(view: View, classes: int, *, pictures: bool = False, large: bool = False) -> tuple[Reading, ...]:
    """What a view allows, from what it shows best to the least; of large inputs, what is learned soonest first.

    Networks of pictures learn more from squared distances of logits than from absolute ones, trees and rows less.
    """
    if view.kind == "labels":
        return ("labels",)
    if classes == 1:
        return ("logits", "labels")
    if view.kind == "logits" or (view.kind == "probs" and view.decimals is None):
        return ("squared", "softened", "labels") if large or pictures else ("logits", "softened", "probs", "labels")
    return ("softened", "intervals", "labels") if large else ("intervals", "softened", "probs", "labels")


def targets(answer: Answer, reading: Reading) -> tuple[Tensor, ...]:
    """The columns a student learns, one row a query."""
    if reading == "labels":
        return (answer.labels,)
    if reading == "intervals":
        low, high = intervals(answer)
        return low.float(), high.float()
    if answer.classes == 1:
        return (answer.logits.float(),)
    if reading == "probs":
        return (answered_probs(answer).float(),)
    return (seen_logits(answer),)


def unit(target: tuple[Tensor, ...], reading: Reading) -> float:
    """What to measure logits in: 1, or their spread where that is less, the victim being never sure of its answer.

    A network would spend its steps on becoming as unsure, and a temperature of 4 would leave nothing of the answers.
    """
    if reading in ("labels", "intervals", "probs"):
        return 1.0
    spread = float(target[0].std(correction=0))
    return min(1.0, spread) if spread > 0 else 1.0


def seen_logits(answer: Answer) -> Tensor:
    """Centred logits; a probability shown as 0 counts as half of the least that is shown anywhere.

    A defense may round without saying so: to take its zeros for numbers below 1e-38 would drown all else.
    """
    if answer.view.kind in ("labels", "logits"):
        return answered_logits(answer).float()
    probs = answered_probs(answer)
    least = probs[probs > 0].min()
    return recover_logits(probs, floor=max(float(least) / 2, float(torch.finfo(torch.float32).tiny))).float()


def loss(outputs: Tensor, target: tuple[Tensor, ...], reading: Reading) -> Tensor:
    """How far a student's outputs are from what it reads."""
    if reading == "labels":
        return label_loss(outputs, target[0])
    if reading == "intervals":
        return interval_loss(outputs, *target)
    if reading == "probs":
        return F.cross_entropy(outputs, target[0])
    if reading == "softened":
        return kl_loss(outputs, target[0], TEMPERATURE)
    return squared_loss(outputs, target[0]) if reading == "squared" else l1_loss(outputs, target[0])


def label_loss(outputs: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy; of one output, the sign of which is the label, the binary one."""
    if outputs.shape[1] == 1:
        return F.binary_cross_entropy_with_logits(outputs[:, 0], labels.to(outputs))
    return F.cross_entropy(outputs, labels)
