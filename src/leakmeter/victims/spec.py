"""What a victim takes and gives: the facts an attacker reads in an API's documentation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from leakmeter.data.columns import Columns
from leakmeter.errors import UsageError

Outputs = Literal["logits", "probs", "labels"]
OUTPUTS: tuple[str, ...] = get_args(Outputs)


@dataclass(frozen=True, eq=False)
class VictimSpec:
    """Shape, box and answers of a victim. Queries live in the raw box; normalisation lives inside the victim."""

    name: str
    input_shape: tuple[int, ...]
    low: Tensor | None
    """Lowest input, one number or one a feature; None: unbounded."""
    high: Tensor | None
    classes: int
    """Columns of the output. One column is a single score, whose sign is the label."""
    outputs: Outputs
    dtype: torch.dtype = torch.float32
    columns: Columns | None = None
    """What each column of a table may hold; queries keep to it."""

    @property
    def features(self) -> int:
        """How many numbers one input has."""
        return int(np.prod(self.input_shape))

    @property
    def width(self) -> Tensor | None:
        """`high - low`, or None where a side is open."""
        return None if self.low is None or self.high is None else self.high - self.low

    def clamp(self, x: Tensor) -> Tensor:
        """The nearest point of the box; in a table the nearest one the columns admit."""
        if self.columns is not None:
            return self.columns.snap(x)
        if self.low is not None:
            x = torch.maximum(x, self.low.to(x))
        if self.high is not None:
            x = torch.minimum(x, self.high.to(x))
        return x

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """Uniform points of the box or over what the columns hold; standard normal ones where it is open."""
        if self.columns is not None:
            return self.columns.uniform(n, generator, self.dtype)
        shape = (n, *self.input_shape)
        if self.low is None or self.high is None:
            return self.clamp(torch.randn(shape, generator=generator, dtype=self.dtype))
        unit = torch.rand(shape, generator=generator, dtype=self.dtype)
        return self.clamp(self.low + unit * (self.high - self.low))

    def admit(self, x: Tensor | np.ndarray) -> Tensor:
        """The queries as a tensor of the victim's type, or an error that says what is wrong with them."""
        if isinstance(x, np.ndarray):
            x = from_array(x) if np.issubdtype(x.dtype, np.floating) else _refuse_type(x.dtype)
        if not isinstance(x, Tensor):
            raise UsageError(f"expected queries as a tensor or an array, got {type(x).__name__}")
        if not x.dtype.is_floating_point:
            _refuse_type(x.dtype)
        shape = ("n", *self.input_shape)
        if tuple(x.shape[1:]) != self.input_shape or x.dim() != len(shape):
            hint = "; add the batch dimension with x[None]" if tuple(x.shape) == self.input_shape else ""
            raise UsageError(f"expected queries of shape {_show(shape)}, got {_show(x.shape)}{hint}")
        if len(x) == 0:
            raise UsageError("expected at least one query, got none")
        x = x.detach().to(self.dtype)
        if self.columns is not None:
            self.columns.check(x)
        else:
            self._check_values(x)
        return x

    def _check_values(self, x: Tensor) -> None:
        least, most = (float(end) for end in torch.aminmax(x))  # one pass; NaN anywhere shows up in both
        if not (math.isfinite(least) and math.isfinite(most)):
            bad = int((~torch.isfinite(x)).flatten(1).any(1).sum())
            raise UsageError(f"expected finite numbers, got NaN or infinity in {bad} of {len(x)} queries")
        if self.low is not None and bool((self.low > least).any()):
            _refuse_outside(x, x < self.low.to(x), f"at least {_edge(self.low)}")
        if self.high is not None and bool((self.high < most).any()):
            _refuse_outside(x, x > self.high.to(x), f"at most {_edge(self.high)}")


def from_array(x: np.ndarray) -> Tensor:
    """An array of any layout as a tensor, copied only where torch cannot share it."""
    native = np.ascontiguousarray(x, dtype=x.dtype.newbyteorder("="))
    return torch.from_numpy(native if native.flags.writeable else native.copy())


def _refuse_outside(x: Tensor, outside: Tensor, wanted: str) -> None:
    """Feature by feature: in a box that is no cube the extremes alone do not decide."""
    if bool(outside.any()):
        rows = int(outside.flatten(1).any(1).sum())
        raise UsageError(
            f"expected inputs of {wanted}, got {x[outside][0].item():.9g} in {rows} of {len(x)} queries; "
            "use spec.clamp(x)"
        )


def _edge(bound: Tensor) -> str:
    return f"{bound.item():g}" if bound.numel() == 1 else f"{bound.min().item():g} to {bound.max().item():g} by feature"


def _show(shape: tuple[object, ...] | torch.Size) -> str:
    return "(" + ", ".join(map(str, shape)) + ")"


def _refuse_type(dtype: object) -> Tensor:
    raise UsageError(f"expected floating-point queries, got {dtype}; convert them, for example with x.float()")
