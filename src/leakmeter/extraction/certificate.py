"""How exact a copy is: measured on fresh points, on the owner's account, after the attack."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from leakmeter.evaluation.score import Reference, predict, reference
from leakmeter.extraction.sources.tables import amounts
from leakmeter.oracle.answer import to_labels
from leakmeter.oracle.oracle import Oracle
from leakmeter.seeds import stream

_POINTS = 1000
_READABLE = 0.5
"""The share of hard points whose probabilities must be readable for the certificate to say anything."""
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
    """Whether both relative errors are below the square root of the victim's machine precision."""
    hard_points: int = 0
    """Points that were chosen because such a copy is likely off there, if it calls itself complete."""
    hard_error: float | None = None
    """The largest |f - copy| over the largest |f| of their kind; None: there are none, or too few can be read."""

    def why(self) -> str:
        """What keeps the copy from being exact, in a sentence."""
        if self.hard_points and self.hard_error is None:
            return "most probabilities are too small to be read at fresh points: what lies there was not seen"
        off, where = max(
            (self.relative_error, "fresh points"), (self.hard_error or 0.0, "points far out or at corners")
        )
        return f"the copy is off by {off:.1g} of the largest output on {where}"


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


def hard_count(oracle: Oracle) -> int:
    """How many hard points of a kind to ask: few where somebody may charge for them."""
    return _POINTS // 10 if oracle.remote else _POINTS


def certify_copy(copy: nn.Module, oracle: Oracle, truth: Reference, hard: Sequence[Tensor] = ()) -> CopyCertificate:
    """Compares the copy with the victim's answers in what the attack could see: logits, probabilities or labels.

    At `hard` points (several kinds, [n, d] each) with everything the owner sees: what an attack could not tell from the
    truth may be false all the same.
    """
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
    allowed = float(torch.finfo(oracle.spec.dtype).eps) ** 0.5
    errors = [_hard_error(copy, oracle, x) for x in hard]
    return CopyCertificate(
        points=len(truth.x),
        outputs=shown,
        max_error=error,
        relative_error=relative,
        bits=-math.log2(error) if error > 0 else None,
        exact=relative <= allowed and all(off is not None and off <= allowed for off in errors),
        hard_points=sum(len(x) for x in hard),
        hard_error=None if None in errors else max((off for off in errors if off is not None), default=None),
    )


def _hard_error(copy: nn.Module, oracle: Oracle, x: Tensor) -> float | None:
    """The largest difference over the largest output, of all logits up to what the view hides; None: unreadable."""
    truth = reference(oracle, x.reshape(-1, *oracle.spec.input_shape).to(oracle.spec.dtype))
    guess, answer = predict(copy, truth.x.double()).double(), truth.answer
    if "logits" in answer.columns:
        wanted = answer.logits.double()
    else:
        seen = answer.probs.amin(1) > torch.finfo(oracle.spec.dtype).tiny / torch.finfo(oracle.spec.dtype).eps
        if float(seen.double().mean()) < _READABLE:
            return None
        wanted, guess = answer.probs[seen].double().log(), guess[seen]
    if oracle.view.kind == "probs":
        wanted, guess = wanted - wanted.mean(1, keepdim=True), guess - guess.mean(1, keepdim=True)
    return float((wanted - guess).norm(dim=1).max() / wanted.norm(dim=1).max().clamp(min=1e-300))
