"""The inputs a model accepts: every feature between `low` and `high`."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from leakmeter.errors import UsageError

Edge = float | Tensor | None
_SLACK = 1e-6  # of the width: how far outside an input may lie and still be read as rounding


@dataclass(frozen=True, eq=False)
class Box:
    """Edges of one number, or one a feature; None: that side is open."""

    low: Tensor | None
    high: Tensor | None

    @classmethod
    def around(cls, x: Tensor, low: Edge, high: Edge) -> Box:
        """The box in the type of `x` and on its device."""
        box = cls(_edge(low, x), _edge(high, x))
        if box.low is not None and box.high is not None and not bool((box.low < box.high).all()):
            raise UsageError(f"expected low < high, got low={low} and high={high}")
        return box

    @property
    def bounded(self) -> bool:
        """Whether both sides are closed."""
        return self.low is not None and self.high is not None

    @property
    def width(self) -> Tensor | float:
        """From edge to edge; 1 where a side is open."""
        return 1.0 if self.low is None or self.high is None else self.high - self.low

    def clamp(self, x: Tensor) -> Tensor:
        """The nearest point of the box, exactly inside it."""
        return x if self.low is None and self.high is None else torch.clamp(x, self.low, self.high)

    def sample(self, shape: torch.Size, generator: torch.Generator) -> Tensor:
        """Uniform points of a bounded box."""
        if self.low is None or self.high is None:
            raise UsageError("a box with an open side has no uniform points; pass low and high")
        unit = torch.rand(shape, generator=generator, device=generator.device, dtype=self.low.dtype)
        return self.clamp(torch.lerp(self.low, self.high, unit.to(self.low.device)))

    def admit(self, x: Tensor) -> Tensor:
        """The inputs, moved onto the box where rounding put them outside; an error where more than rounding did."""
        if not bool(torch.isfinite(x).all()):
            raise UsageError("expected finite inputs, got NaN or infinity; clean the inputs first")
        inside = self.clamp(x)
        if bool(((x - inside).abs() > _SLACK * self.width).any()):
            raise UsageError(
                f"expected inputs inside the box, got values from {x.min().item():g} to {x.max().item():g}; "
                "pass the right low and high, and normalise inside the model"
            )
        return inside


def _edge(value: Edge, x: Tensor) -> Tensor | None:
    return None if value is None else torch.as_tensor(value, dtype=x.dtype, device=x.device)
