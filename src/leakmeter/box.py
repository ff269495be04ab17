"""The inputs a model accepts: every feature between `low` and `high`."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from leakmeter.errors import UsageError

Edge = float | Tensor | None
ROUNDING = 1e-6
"""Of the width: how far outside an input may lie and still be read as rounding."""


@dataclass(frozen=True, eq=False)
class Box:
    """Edges of one number, or one a feature; None: that side is open."""

    low: Tensor | None
    high: Tensor | None

    @classmethod
    def around(cls, x: Tensor, low: Edge, high: Edge) -> Box:
        """The box in the type of `x` and on its device."""
        edges = (
            None if edge is None else torch.as_tensor(edge, dtype=x.dtype, device=x.device) for edge in (low, high)
        )
        box = cls(*edges)
        if box.low is not None and box.high is not None and not bool((box.low < box.high).all()):
            raise UsageError(f"expected low below high for every feature, got low={low} and high={high}")
        return box

    @property
    def width(self) -> Tensor | None:
        """From edge to edge; None where a side is open."""
        return None if self.low is None or self.high is None else self.high - self.low

    @property
    def unit(self) -> Tensor | float:
        """What lengths are measured in: the width; 1 where a side is open."""
        width = self.width
        return 1.0 if width is None else width

    def clamp(self, x: Tensor) -> Tensor:
        """The nearest point of the box, exactly inside it."""
        if self.low is None and self.high is None:
            return x
        low, high = (None if edge is None else edge.to(x) for edge in (self.low, self.high))
        return torch.clamp(x, low, high)

    def from_unit(self, unit: Tensor) -> Tensor:
        """Numbers in [0, 1] stretched to the box; where a side is open, to zero mean and about unit spread."""
        if self.low is None or self.high is None:
            return self.clamp((unit - 0.5) * 4)
        # lerp is exact at both ends, so no query leaves the box by a rounding error
        return self.clamp(torch.lerp(self.low.to(unit), self.high.to(unit), unit))

    def to_unit(self, x: Tensor) -> Tensor:
        """Inputs mapped from the box, or from their own range where a side is open, to [0, 1]."""
        low, high = x.min() if self.low is None else self.low, x.max() if self.high is None else self.high
        width = high - low
        return ((x - low) / torch.where(width > 0, width, 1.0)).clamp(0, 1)

    def sample(self, shape: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype) -> Tensor:
        """Uniform points, on the generator's device; standard normal ones where a side is open."""
        if self.low is None or self.high is None:
            return self.clamp(torch.randn(shape, generator=generator, device=generator.device, dtype=dtype))
        return self.from_unit(torch.rand(shape, generator=generator, device=generator.device, dtype=dtype))

    def admit(self, x: Tensor, slack: float = 0.0) -> Tensor:
        """The inputs, or an error that says how many lie outside.

        Args:
            x: rows of inputs.
            slack: how far outside, in widths, is taken for rounding and moved onto the box.
        """
        least, most = (float(end) for end in torch.aminmax(x))  # one pass; NaN anywhere shows up in both
        if not (math.isfinite(least) and math.isfinite(most)):
            bad = int((~torch.isfinite(x)).flatten(1).any(1).sum())
            raise UsageError(f"expected finite numbers, got NaN or infinity in {bad} of {len(x)} inputs")
        beyond = slack * self.unit
        if self.low is not None and bool((self.low > least).any()):
            _refuse(x, x < self.low.to(x) - beyond, f"at least {_show(self.low)}")
        if self.high is not None and bool((self.high < most).any()):
            _refuse(x, x > self.high.to(x) + beyond, f"at most {_show(self.high)}")
        return self.clamp(x) if slack else x


def _refuse(x: Tensor, outside: Tensor, wanted: str) -> None:
    """Feature by feature: in a box that is no cube the extremes alone do not decide."""
    if bool(outside.any()):
        rows = int(outside.flatten(1).any(1).sum())
        raise UsageError(
            f"expected inputs of {wanted}, got {x[outside][0].item():.9g} in {rows} of {len(x)} inputs; clamp them to "
            "the box, or pass the right low and high (--low, --high: those of raw inputs; a model normalises inside)"
        )


def _show(edge: Tensor) -> str:
    return f"{edge.item():g}" if edge.numel() == 1 else f"{edge.min().item():g} to {edge.max().item():g} by feature"
