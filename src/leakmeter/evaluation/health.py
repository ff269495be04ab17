"""What the victim's own answers say about how far an audit of it can be believed."""

from __future__ import annotations

from typing import Any

import torch

from leakmeter.evaluation.score import Reference
from leakmeter.oracle.oracle import Oracle

_ROWS = 32
_ALIKE = 1e-3  # answers may differ by rounding when the batch does
_ZERO = 1e-7


def health(oracle: Oracle, truth: Reference) -> dict[str, Any]:
    """Asks a few test inputs again, on the evaluation account, and looks at the answers there are."""
    again, before = oracle.judge(truth.x[:_ROWS]), truth.answer
    column = next(iter(before.columns))
    one, two = before.columns[column][:_ROWS].double(), again.columns[column].double()
    saturated = None
    if before.view.kind != "labels" and before.classes > 1:
        probs = before.probs
        saturated = float(((probs < _ZERO) | (probs > 1 - _ZERO)).double().mean())
    return {"repeatable": bool(torch.allclose(one, two, rtol=_ALIKE, atol=_ALIKE)), "saturated": saturated}
