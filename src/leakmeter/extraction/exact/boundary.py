"""The first place on the way from a point the copy explains to one it does not: there a unit is missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from leakmeter.extraction.exact.asking import Asker

_STEPS = 60
_NEAR = 0.03

Copy = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Values [n, C] and gradients [n, C, d]."""
Allowed = Callable[[Tensor, Tensor], Tensor]
"""How far off values may be at points with such values."""


@dataclass(frozen=True)
class _Miss:
    """How far off the copy is at a place of the way, and how fast that changes."""

    at: float
    off: Tensor
    slope: Tensor
    explained: bool

    @property
    def root(self) -> float:
        """Where it would vanish."""
        return self.at - float(self.off @ self.slope) / max(float(self.slope @ self.slope), 1e-300)

    def same_piece(self, other: _Miss) -> bool:
        """Whether one line goes through both."""
        gap = self.off - other.off - other.slope * (self.at - other.at)
        return float(gap.norm()) <= 1e-3 * max(float(self.off.norm()), 1e-300)


def find_boundary(
    asker: Asker, copy: Copy, good: Tensor, bad: Tensor, allowed: Allowed
) -> tuple[Tensor, Tensor] | None:
    """A short segment (origin, along; -1 <= t <= 1) across the place where the copy stops explaining, or None.

    The copy's error is zero up to there and linear just after, so its root is where to ask next.
    """
    low, high = 0.0, _ask(asker, copy, good, bad, 1.0, allowed)
    if high is None or high.explained:
        return None
    checked = False
    for _ in range(_STEPS):
        root = high.root
        inside = low < root < high.at
        near, beyond = root - _NEAR * (root - low), root + _NEAR * (high.at - root)
        at = (low + high.at) / 2 if not inside else near if checked else beyond
        if asker.room(1) == 0 or high.at - low < 1e-9:
            return None
        miss = _ask(asker, copy, good, bad, at, allowed)
        if miss is None:
            return None
        if miss.explained:
            low = at
            if inside and checked and at == near:
                half = min(near - root, root - high.at, key=abs)
                return good + root * (bad - good), abs(half) * (bad - good)
            checked = False
        else:
            checked = inside and at == beyond and miss.same_piece(high)
            high = miss
    return None


def _ask(asker: Asker, copy: Copy, good: Tensor, bad: Tensor, at: float, allowed: Allowed) -> _Miss | None:
    x = asker.rounded((good + at * (bad - good))[None])
    answer = asker.ask(x)
    if not bool(answer.usable.all()) or answer.gradients is None:
        return None
    value, gradient = copy(x)
    off = answer.values - value
    explained = bool((off.norm(dim=1) <= allowed(x, answer.values)).all())
    return _Miss(at, off[0], (answer.gradients[0] - gradient[0]) @ (bad - good), explained)
