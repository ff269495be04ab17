"""How exact a copy is: measured on fresh points, on the owner's account, after the attack."""

from __future__ import annotations

import math

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from leakmeter.evaluation.score import Reference, predict, reference
from leakmeter.extraction.sources.tables import amounts
from leakmeter.oracle.answer import to_labels
from leakmeter.oracle.oracle import Oracle
from leakmeter.seeds import stream

_POINTS = 1000
_ROWS = 10_000  # of a table, whose models have parts so small that few points find none of them


class CopyCertificate(BaseModel):
    """How exact a copy is on fresh points of the box (standard normal ones where it is open): measured, not proved.

    Of a table they are uniform rows, rows whose amounts are small, and the owner's test rows.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    points: int
    outputs: str
    """What was compared: logits, or probabilities or labels where the attack saw no more."""
    max_error: float
    """Largest |f - copy| over points and outputs."""
    relative_error: float
    """The same over the largest |f|."""
    bits: float | None
    """-log2 of the largest error; None if there was no difference at all."""
    exact: bool
    """Whether the relative error is below the square root of the victim's machine precision."""


def fresh_reference(oracle: Oracle, seed: int, test: Tensor | None = None) -> Reference:
    """Points that no attack has seen, with the victim's answers to them, on the evaluation account.

    Args:
        oracle: whom to ask.
        seed: of the points.
        test: the owner's test rows, if there are any; the answers to those of a table are compared too.
    """
    draws = stream(seed, "exact", "certificate")
    if oracle.spec.columns is None:
        return reference(oracle, oracle.spec.sample(_POINTS, draws))
    n = _POINTS if oracle.remote else _ROWS
    rows = [oracle.spec.sample(n // 2, draws), amounts(n - n // 2, oracle.spec, draws).to(oracle.spec.dtype)]
    return reference(oracle, torch.cat(rows if test is None else [*rows, test[:n].to(oracle.spec.dtype)]))


def certify_copy(copy: nn.Module, oracle: Oracle, truth: Reference) -> CopyCertificate:
    """Compares the copy with the victim's answers in what the attack could see: logits, probabilities or labels."""
    outputs, answer = predict(copy, truth.x.double()).double(), truth.answer
    if oracle.view.kind == "logits":
        shown, wanted = "logits", answer.logits.double()
    elif oracle.view.kind == "labels":
        shown, wanted = "labels", answer.labels.double()[:, None]
        outputs = to_labels(outputs).double()[:, None]
    else:
        shown, outputs, wanted = "probs", outputs.softmax(1), answer.probs.double()
    error = float((wanted - outputs).abs().max())
    relative = error / max(float(wanted.abs().max()), torch.finfo(torch.float64).tiny)
    return CopyCertificate(
        points=len(truth.x),
        outputs=shown,
        max_error=error,
        relative_error=relative,
        bits=-math.log2(error) if error > 0 else None,
        exact=relative <= float(torch.finfo(oracle.spec.dtype).eps) ** 0.5,
    )
