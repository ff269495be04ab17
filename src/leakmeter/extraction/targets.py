"""Answers to training targets: what each view lets a student learn, and the losses that say so.

A victim's probabilities are its logits up to one number per input (DFME appendix B). A view that rounds or hides leaves
an interval for each log-probability instead of a value; a view of labels leaves only which class is highest.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from leakmeter.errors import NotApplicable
from leakmeter.oracle.answer import Answer

FLOOR = torch.finfo(torch.float32).tiny
"""Probabilities below this underflow: all that is known of them is that they are lower."""


def recover_logits(probs: Tensor, floor: float = FLOOR) -> Tensor:
    """Logits from probabilities: log-probabilities minus their mean over the classes (appendix B, equations 8 and 9).

    Exact up to the mean of the true logits. Probabilities that underflowed or were rounded away count as `floor`, so
    the result is always finite.
    """
    logs = probs.clamp_min(floor).log()
    return logs - logs.mean(1, keepdim=True)


def answered_logits(answer: Answer) -> Tensor:
    """One vector of logits per row, the best guess the view allows, centred.

    Where the view hides classes (`top:K`, `labels`), they share what is left of the probability evenly, but none gets
    more than the least shown one.
    """
    require_classes(answer.classes)
    if answer.view.kind == "logits":
        return answer.logits - answer.logits.mean(1, keepdim=True)
    if answer.view.kind == "labels":
        return recover_logits(F.one_hot(answer.labels, answer.classes).float(), floor=_LABEL_FLOOR)
    return recover_logits(_completed(answer), floor=_floor(answer))


def answered_scores(answer: Answer) -> Tensor:
    """The same of any victim: a single score is a logit against 0, of which labels tell the sign."""
    if answer.classes > 1:
        return answered_logits(answer).float()
    score = answer.logits if answer.view.kind == "logits" else answer.labels[:, None] * 2 - 1
    return two_columns(score.float())


def two_columns(logits: Tensor) -> Tensor:
    """A single score is a logit against 0."""
    return logits if logits.shape[1] > 1 else F.pad(logits, (0, 1))


def answered_probs(answer: Answer) -> Tensor:
    """One distribution per row, the best guess the view allows; one-hot where it shows labels only."""
    require_classes(answer.classes)
    if answer.view.kind == "labels":
        return F.one_hot(answer.labels, answer.classes).float()
    return _completed(answer)


def intervals(answer: Answer) -> tuple[Tensor, Tensor]:
    """The lowest and highest log-probability each class can have had, given the answer: [n, classes] each."""
    if answer.view.kind == "logits":
        exact = answer.logits.log_softmax(1)
        return exact, exact
    probs, half = answer.probs, _half_step(answer)
    high = (probs + half).clamp(FLOOR, 1).log()
    low = torch.where(probs - half >= FLOOR, (probs - half).clamp_min(FLOOR).log(), -math.inf)
    shown = answer.shown.to(probs.device)
    least = torch.where(shown, probs, 1).amin(1, keepdim=True)
    rounding = answer.classes * torch.finfo(probs.dtype).eps  # of the sum: what it hides is not known to be 0
    left = (1 - probs.sum(1, keepdim=True)).clamp_min(0) + rounding
    hidden = torch.minimum(least, left).clamp_min(FLOOR).log()
    return torch.where(shown, low, -math.inf), torch.where(shown, high, hidden)


def l1_loss(logits: Tensor, target: Tensor) -> Tensor:
    """DFME's loss: mean |s - v| over rows and classes, `target` being recovered logits."""
    return (logits - target).abs().mean()


def squared_loss(logits: Tensor, target: Tensor) -> Tensor:
    """Mean (s - v)² of centred logits: what the KL of softened answers becomes as the temperature grows."""
    return (logits - logits.mean(1, keepdim=True) - target).square().mean()


def interval_loss(logits: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """How far the student's log-probabilities lie outside their intervals, in the mean; ℓ1 where they are points."""
    logs = logits.log_softmax(1)
    return (F.relu(logs - high) + F.relu(low - logs)).mean()


def kl_loss(logits: Tensor, target: Tensor, temperature: float = 1.0) -> Tensor:
    """τ² KL(V ‖ S) of the softened answers (appendix A.1), `target` being logits up to a constant."""
    student, teacher = (logits / temperature).log_softmax(1), (target / temperature).log_softmax(1)
    return temperature**2 * (teacher.exp() * (teacher - student)).sum(1).mean()


_LABEL_FLOOR = 1e-3


def require_classes(classes: int) -> None:
    """For attacks that learn which class is highest: a single score has nothing to be compared with."""
    if classes == 1:
        raise NotApplicable(
            "expected a victim of two class outputs or more to learn from, got a single score; "
            "let the victim return two columns, 0 and the score"
        )


def _half_step(answer: Answer) -> float:
    return 0.0 if answer.view.decimals is None else 0.5 * 10.0**-answer.view.decimals


def _floor(answer: Answer) -> float:
    """What a shown zero stands for: half of the largest probability that would be shown as zero."""
    return max(FLOOR, _half_step(answer) / 2)


def _completed(answer: Answer) -> Tensor:
    """All probabilities: the shown ones as they are, the hidden ones as even as they can be."""
    probs, shown = answer.probs, answer.shown.to(answer.probs.device)
    if shown.all():
        return probs
    hidden = (~shown).sum(1, keepdim=True).clamp_min(1)
    even = (1 - probs.sum(1, keepdim=True)).clamp_min(0) / hidden
    least = torch.where(shown, probs, 1).amin(1, keepdim=True)
    return torch.where(shown, probs, torch.minimum(even, least))
