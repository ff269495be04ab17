"""What a defense costs the honest user: the same test inputs, answered with and without it."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from leakmeter.evaluation.intervals import Interval, exact
from leakmeter.evaluation.score import Reference
from leakmeter.oracle.answer import Answer


class Utility(BaseModel):
    """`notes["utility"]`: what a defense costs on `n` test inputs. What cannot be measured is None.

    It is about everything the defended model outputs, whatever a view shows of it; a label counts as certainty.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    n: int = 0
    accuracy_loss: float | None = None
    """Accuracy of the victim without the defense, minus with it."""
    agreement: float | None = None
    """How often the label is the same with and without it."""
    agreement_interval: Interval | None = None
    distortion: float | None = None
    """Mean total variation between the probabilities with and without it."""
    kl: float | None = None
    """Mean KL(with || without) in nats: finite where the defense shows zeros."""


def utility(truth: Reference, served: Answer) -> Utility:
    """Compares what honest users are served with the undefended answers to the same inputs."""
    before, after, n = truth.answer.labels, served.labels, len(truth.x)
    same = int((before == after).sum())
    loss = None
    if truth.y is not None:
        loss = (int((before == truth.y).sum()) - int((after == truth.y).sum())) / n
    logs = _log_probs(truth.answer)
    shown = None if logs is None else _probs(served)
    return Utility(
        n=n,
        accuracy_loss=loss,
        agreement=same / n,
        agreement_interval=exact(same, n),
        distortion=None if logs is None or shown is None else float((shown - logs.exp()).abs().sum(1).mean() / 2),
        kl=None if logs is None or shown is None else _kl(shown, logs),
    )


def _log_probs(answer: Answer) -> Tensor | None:
    """The undefended log-probabilities; None where the victim gives only labels or one score."""
    if answer.view.kind == "labels" or answer.classes == 1:
        return None
    if answer.view.kind == "logits":
        return answer.logits.double().log_softmax(1)
    return answer.probs.double().clamp_min(torch.finfo(torch.float32).tiny).log()


def _probs(answer: Answer) -> Tensor:
    """The shown probabilities as a distribution."""
    if answer.view.kind == "labels":
        return F.one_hot(answer.labels, answer.classes).double()
    return answer.logits.double().softmax(1) if answer.view.kind == "logits" else answer.probs.double()


def _kl(shown: Tensor, logs: Tensor) -> float:
    return float((torch.xlogy(shown, shown) - shown * logs).sum(1).mean().clamp_min(0))
