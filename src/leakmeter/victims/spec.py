"""What a victim takes and gives: the facts an attacker reads in an API's documentation."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from leakmeter.box import Box
from leakmeter.data.columns import Columns
from leakmeter.errors import UsageError

Outputs = Literal["logits", "probs", "labels"]
OUTPUTS: tuple[str, ...] = get_args(Outputs)


@dataclass(frozen=True, eq=False)
class VictimSpec:
    """Shape, box and answers of a victim. Queries live in the raw box; normalisation lives inside the victim."""

    name: str
    input_shape: tuple[int, ...]
    box: Box
    classes: int
    """Columns of the output. One column is a single score, whose sign is the label."""
    outputs: Outputs
    dtype: torch.dtype = torch.float32
    columns: Columns | None = None
    """What each column of a table may hold; queries keep to it."""
    class_names: tuple[str, ...] = ()
    """What the classes are called, in their order; empty: they have only numbers."""

    @property
    def features(self) -> int:
        """How many numbers one input has."""
        return math.prod(self.input_shape)

    @property
    def low(self) -> Tensor | None:
        """Lowest input, one number or one a feature; None: unbounded."""
        return self.box.low

    @property
    def high(self) -> Tensor | None:
        """Highest input."""
        return self.box.high

    @property
    def width(self) -> Tensor | None:
        """`high - low`, or None where a side is open."""
        return self.box.width

    def shaped(self, shape: tuple[int, ...]) -> VictimSpec:
        """The same inputs in another shape of as many numbers."""
        edges = (
            edge if edge is None or edge.dim() == 0 else edge.expand(self.input_shape).reshape(shape)
            for edge in (self.low, self.high)
        )
        return replace(self, input_shape=shape, box=Box(*edges))

    def clamp(self, x: Tensor) -> Tensor:
        """The nearest point of the box; in a table the nearest one the columns admit."""
        return self.box.clamp(x) if self.columns is None else self.columns.snap(x)

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """Uniform points of the box or over what the columns hold; standard normal ones where it is open."""
        if self.columns is not None:
            return self.columns.uniform(n, generator, self.dtype)
        return self.box.sample((n, *self.input_shape), generator, self.dtype)

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
            raise UsageError(f"expected queries of shape {_show(shape)}, got {_show(x.shape)}{self._hint(x.shape)}")
        if len(x) == 0:
            raise UsageError("expected at least one query, got none")
        x = x.detach()
        if self.columns is not None:
            return self.columns.admit(x.to(self.dtype))
        if x.dtype.itemsize >= self.dtype.itemsize:
            return self.box.admit(x.to(self.dtype))
        return self.clamp(
            self.box.admit(x).to(self.dtype)
        )  # an edge of more digits than inputs have is met by rounding

    def _hint(self, shape: torch.Size) -> str:
        if tuple(shape) == self.input_shape:
            return "; add the batch dimension with x[None]"
        if len(shape) == 4 and (shape[3], shape[1], shape[2]) == self.input_shape:
            return "; put channels first with permute(0, 3, 1, 2)"
        return ""


def both_classes(outputs: Tensor, spec: VictimSpec) -> Tensor:
    """One probability a row as that of the second of two classes, one score a row as a column; others as they are.

    Labels that come as a column are a row's label each.
    """
    if outputs.numel() != len(outputs):
        return outputs
    if spec.outputs == "labels":
        return outputs.reshape(-1).long() if outputs.dtype == torch.bool else outputs.reshape(-1)
    column = outputs.reshape(-1, 1)
    return torch.cat([1 - column, column], 1) if spec.outputs == "probs" and spec.classes == 2 else column


def to_labels(outputs: Tensor) -> Tensor:
    """The class each row of logits or probabilities names; one column is a score whose sign decides."""
    return (outputs[:, 0] > 0).long() if outputs.shape[1] == 1 else outputs.argmax(1)


def from_array(x: np.ndarray) -> Tensor:
    """An array of any layout as a tensor, copied only where torch cannot share it."""
    native = np.ascontiguousarray(x, dtype=x.dtype.newbyteorder("="))
    return torch.from_numpy(native if native.flags.writeable else native.copy())


def _show(shape: tuple[object, ...] | torch.Size) -> str:
    return "(" + ", ".join(map(str, shape)) + ")"


def _refuse_type(dtype: object) -> Tensor:
    raise UsageError(f"expected floating-point queries, got {dtype}; convert them, for example with x.float()")
