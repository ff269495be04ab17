"""Turns an oracle into a piecewise linear function that can be asked for values and gradients in float64."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from leakmeter.errors import UsageError
from leakmeter.oracle.answer import Answer
from leakmeter.oracle.explanations.baseline import baseline
from leakmeter.oracle.explanations.integrated import IntegratedGradients
from leakmeter.oracle.oracle import Oracle

DOUBLE, _FEW = 1e-12, 64
SLOPES = ("gradient", "gradxinput")
"""Explanations from which the gradient can be read off: at points without zeros the second is the first."""


@dataclass(frozen=True)
class Pieces:
    """Answers to points [n, d]: values [n, C], gradients [n, C, d] where shown, and how far off rounding may be."""

    values: Tensor
    gradients: Tensor | None
    usable: Tensor
    """False where a probability is too small to take its logarithm's gradient, [n]."""
    size: Tensor
    """What the rounding error of a value is relative to, [n]."""

    def __getitem__(self, rows: slice) -> Pieces:
        gradients = None if self.gradients is None else self.gradients[rows]
        return Pieces(self.values[rows], gradients, self.usable[rows], self.size[rows])

    def rows(self) -> list[Pieces]:
        """One by one."""
        return [self[i : i + 1] for i in range(len(self.usable))]

    def spoiled(self) -> Pieces:
        """The same, not to be used."""
        return replace(self, usable=torch.zeros_like(self.usable))


class Asker:
    """Asks an oracle. Probabilities become contrasts of log-probabilities, which are piecewise linear as logits are."""

    def __init__(self, oracle: Oracle) -> None:
        self.oracle, self.spec, self.view = oracle, oracle.spec, oracle.view
        if self.view.kind not in ("logits", "probs") or self.view.decimals is not None:
            raise UsageError(
                f"exact reconstruction needs unrounded outputs, got the view '{self.view}'; "
                f"use logits or probs, with +gradient for 'exact'"
            )
        classes = self.spec.classes
        self.contrasts = contrasts(classes) if self.view.kind == "probs" else torch.eye(classes, dtype=torch.float64)
        self.outputs = len(self.contrasts)
        self.d = self.spec.features
        self.explained = self.view.explained in SLOPES
        self._anchor = torch.zeros((), dtype=self.spec.dtype) if self.view.explained == "gradxinput" else None
        """Where the factor is zero by which gradients were multiplied; None: by none."""
        self.steps = 1
        """Gradients that an explanation is the average of."""
        if isinstance(self.view.explanation, IntegratedGradients):
            self.steps = self.view.explanation.steps
            self._anchor = baseline(self.spec, self.view.explanation.level)
        self.eps = float(torch.finfo(self.spec.dtype).eps)
        self.rounds = 0
        """Batches of questions asked."""
        self.reserve = 0
        """Questions of the budget that the search leaves for what it cannot find."""
        self.steepest = 0.0
        """The largest gradient seen: what the rounding error of gradients is relative to."""
        self.bias_error = 0.0
        """How far rounding may have moved the copy's biases."""
        self.asked: list[tuple[Tensor, Tensor]] = []
        """Points and values, kept where rounding leaves too little of gradients made from them one by one."""
        self.keeps = not self.explained and self.eps > DOUBLE and self.d <= _FEW
        self.blur = 0.0
        """How far off gradients are beyond that, where they had to be made from differences of values."""

    @property
    def averaged(self) -> bool:
        """Whether what is shown are averages of gradients on the way from `baseline`."""
        return isinstance(self.view.explanation, IntegratedGradients) and not self.view.protections

    @property
    def baseline(self) -> Tensor:
        """The point next to where these begin, [1, d]."""
        assert self._anchor is not None
        return self.rounded(self._anchor.flatten()[None])

    @property
    def unbounded(self) -> bool:
        """Whether inputs have no limits at all: then far points come in opposite pairs."""
        return self.spec.low is None and self.spec.high is None

    def room(self, rows: int) -> int:
        """How many of `rows` questions the budget still allows."""
        left = self.oracle.remaining
        return rows if left is None else max(0, min(rows, left - self.reserve))

    @contextmanager
    def whole_budget(self) -> Iterator[None]:
        """For questions that may end the search: if they do, nothing need be left."""
        kept, self.reserve = self.reserve, 0
        yield
        self.reserve = kept

    def rounded(self, x: Tensor) -> Tensor:
        """The points the victim really sees: in the box and in its own precision, without zeros where these hide."""
        shaped = self.spec.clamp(x.reshape(-1, *self.spec.input_shape).to(self.spec.dtype))
        return (shaped if self._anchor is None else self._apart(shaped, self._anchor)).flatten(1).double()

    def _apart(self, x: Tensor, anchor: Tensor) -> Tensor:
        """No feature where the anchor is: times nothing a gradient is nothing, times the least step it is all there."""
        step = (self.eps * torch.maximum(torch.as_tensor(self.spec.box.unit), 4 * anchor.abs())).to(x)
        moved = self.spec.clamp(torch.where((x - anchor).abs() < step, anchor + step, x))
        return torch.where((moved - anchor).abs() < step, anchor - step, moved)

    def ask(self, x: Tensor) -> Pieces:
        """One query a row, at the points `rounded` gives."""
        self.rounds += 1
        points = self.rounded(x)
        shaped = points.to(self.spec.dtype).reshape(-1, *self.spec.input_shape)
        answer = self.read(self.oracle.query(shaped), shaped.flatten(1).double())
        if self.keeps:
            self.asked.append((points[answer.usable], answer.values[answer.usable]))
        return answer

    def read(self, answer: Answer, x: Tensor) -> Pieces:
        """The contrasts of the answer to points [n, d]."""
        shown = (answer.logits if self.view.kind == "logits" else answer.probs).double()
        slopes = answer.explanation.double().flatten(2) if self.explained or self.averaged else None
        if slopes is not None and self._anchor is not None:
            slopes = slopes / (x - self._anchor.double().flatten())[:, None]
        usable = torch.ones(len(shown), dtype=torch.bool)
        if self.view.kind == "probs":
            usable = shown.amin(1) > torch.finfo(self.spec.dtype).tiny / self.eps
            safe = shown.clamp(min=torch.finfo(self.spec.dtype).tiny)
            slopes = slopes / safe[:, :, None] if slopes is not None else None
            shown = safe.log()
        values = shown @ self.contrasts.T
        gradients = torch.einsum("kc,ncd->nkd", self.contrasts, slopes) if slopes is not None else None
        if gradients is not None and bool(usable.any()):
            self.steepest = max(self.steepest, float(gradients[usable].flatten(1).norm(dim=1).max()))
        return Pieces(values, gradients, usable, shown.norm(dim=1))


def contrasts(classes: int) -> Tensor:
    """An orthonormal basis of what softmax cannot hide: the differences between logits, [classes - 1, classes]."""
    rows = torch.tril(torch.ones(classes - 1, classes, dtype=torch.float64))
    for i in range(classes - 1):
        rows[i, i + 1] = -(i + 1)
    basis: Tensor = rows / rows.norm(dim=1, keepdim=True)
    return basis
