"""How exact a copy is, measured on fresh points on the owner's account, and which of the victim's units it has."""

from __future__ import annotations

import math

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from leakmeter.oracle.oracle import Oracle
from leakmeter.seeds import stream


class Certificate(BaseModel):
    """A measured bound on fresh points of the box (standard normal ones where it is open), not a proof."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    points: int
    outputs: str
    """What was compared: logits, or probabilities under a probability view."""
    max_error: float
    """Largest |f - copy| over points and outputs."""
    relative_error: float
    """The same over the largest |f|."""
    bits: float | None
    """-log2 of the largest error; None if there was no difference at all."""
    agreement: float
    """Share of the points at which the copy gives the victim's label."""
    exact: bool
    """Whether the copy is complete and its relative error below the square root of the victim's machine precision."""
    units: int
    """Hidden units found."""
    layers: tuple[int, ...] = ()
    """The same for each hidden layer."""
    complete: bool
    """Whether the attack itself had nothing left to explain when it ended."""
    missing: str | None
    """What is missing, in a sentence; None if nothing is known to be."""


def certify_copy(
    copy: nn.Module, oracle: Oracle, *, layers: tuple[int, ...], missing: str | None, seed: int, points: int = 1000
) -> Certificate:
    """Asks the victim on the evaluation account and compares."""
    x = oracle.spec.sample(points, stream(seed, "exact", "certificate"))
    answer, kind = oracle.judge(x), oracle.view.kind
    with torch.inference_mode():
        outputs = copy(x.double()).cpu()
    if kind == "probs":
        truth, outputs = answer.probs.double(), outputs.softmax(1)
    else:
        truth = answer.logits.double()
    error = float((truth - outputs).abs().max())
    relative = error / max(float(truth.abs().max()), torch.finfo(torch.float64).tiny)
    return Certificate(
        points=points,
        outputs=kind,
        max_error=error,
        relative_error=relative,
        bits=-math.log2(error) if error > 0 else None,
        agreement=float((_labels(truth) == _labels(outputs)).double().mean()),
        exact=missing is None and relative <= float(torch.finfo(oracle.spec.dtype).eps) ** 0.5,
        units=sum(layers),
        layers=layers,
        complete=missing is None,
        missing=missing,
    )


def _labels(outputs: Tensor) -> Tensor:
    return outputs.argmax(1) if outputs.shape[1] > 1 else outputs[:, 0] > 0


def aligned(found: nn.Linear, truth: nn.Linear, *, tolerance: float) -> Tensor:
    """For each of the victim's units the copy's unit on the same hyperplane, or -1: permutation and scale drop out.

    White-box: for the owner. Rows (weight, bias) are compared up to scale and sign.
    """
    rows = [torch.cat([layer.weight, layer.bias[:, None]], dim=1).detach().double() for layer in (found, truth)]
    ours, theirs = (row / row.norm(dim=1, keepdim=True) for row in rows)
    cosine, match = (theirs @ ours.T).abs().max(1)
    return torch.where(1 - cosine <= tolerance, match, -1)
