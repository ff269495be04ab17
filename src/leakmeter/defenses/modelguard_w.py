"""ModelGuard-W: the answer that is least true within a distance, by a linear program (Tang et al. 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from leakmeter.defenses.base import Defense, with_label
from leakmeter.errors import Inconclusive, UsageError

_FLOOR = 1e-6  # probabilities below this count alike
_MARGIN = 1e-4  # by which the label's class stays ahead, where it was
_AT_ONCE = 64  # rows of one program


@dataclass(frozen=True)
class ModelGuardW(Defense):
    """Shows the y' that minimises Σ y'ᵢ log yᵢ within ‖y' - y‖₁ ≤ epsilon and with the same label.

    It makes the cross entropy of the true model on the shown answers as large as it can be: whoever learns from them
    moves away from the model.
    """

    name: ClassVar[str] = "modelguard-w"
    keeps_label: ClassVar[bool] = True
    epsilon: float

    def __post_init__(self) -> None:
        if not 0 < self.epsilon <= 2:
            raise UsageError(f"expected EPSILON of modelguard-w:EPSILON above 0 and up to 2, got {self.epsilon:g}")

    def change(self, probs: Tensor, noise: torch.Generator) -> Tensor:  # noqa: ARG002
        """The least true answer allowed."""
        rows = probs.cpu().double()
        shown = torch.cat([torch.from_numpy(self._solved(part.numpy())) for part in torch.split(rows, _AT_ONCE)])
        shown = shown.clamp_min(0)
        return with_label(shown / shown.sum(1, keepdim=True), rows.argmax(1, keepdim=True)).to(probs)

    def _solved(self, y: np.ndarray) -> np.ndarray:
        """All rows as one program: what is added to each value, and what is taken from it."""
        from scipy.optimize import linprog
        from scipy.sparse import block_array, eye_array, kron

        n, k = y.shape
        ones: Any = kron(eye_array(n), np.ones((1, k)))
        lead, room = _leads(y)
        cost = np.log(np.maximum(y, _FLOOR)).ravel()
        found: Any = linprog(  # type: ignore[call-overload]
            np.concatenate([cost, -cost]),
            A_ub=block_array([[ones, ones], [-lead, lead]]).tocsr(),
            b_ub=np.concatenate([np.full(n, self.epsilon), room]),
            A_eq=block_array([[ones, -ones]]).tocsr(),
            b_eq=np.zeros(n),
            bounds=np.stack([np.zeros(2 * n * k), np.concatenate([np.ones(n * k), y.ravel()])], 1),
            method="highs",
        )
        if found.x is None:
            raise Inconclusive(f"the linear program of modelguard-w was not solved: {found.message}")
        more, less = found.x.reshape(2, n, k)
        return np.asarray(y + more - less)


def _leads(y: np.ndarray) -> tuple[Any, np.ndarray]:
    """The matrix that takes changes to changes of the label's lead over every class, and how much of it may go."""
    from scipy.sparse import coo_array, eye_array

    n, k = y.shape
    label = y.argmax(1)
    top = (np.arange(n) * k + label).repeat(k)
    lead = coo_array((np.ones(n * k), (np.arange(n * k), top)), (n * k, n * k)) - eye_array(n * k)
    gap = y.max(1, keepdims=True) - y
    return lead, (gap - np.minimum(gap, _MARGIN)).ravel()
