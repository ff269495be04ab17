"""A `torch.export` program (`.pt2`): gradients still flow through it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from leakmeter.errors import UsageError, first_line
from leakmeter.victims.kind import FileKind, Request
from leakmeter.victims.pt2 import harmless_program


class ExportedKind(FileKind):
    """Programs of one input."""

    form = "a torch.export .pt2 file"
    suffixes = (".pt2",)

    def read(self, path: Path, request: Request) -> nn.Module:  # noqa: ARG002
        """The program as a module that knows its input shape."""
        checked = harmless_program(path)
        try:
            program = torch.export.load(checked)
        except Exception as error:
            raise UsageError(f"{path} is not a torch.export program: {first_line(error)}") from error
        user_inputs = program.graph_signature.user_inputs
        if len(user_inputs) != 1:
            raise UsageError(f"expected a program of one input, got {len(user_inputs)}")
        node = next(node for node in program.graph.nodes if node.name == user_inputs[0])
        shape = node.meta["val"].shape
        module: nn.Module = program.module()
        if isinstance(shape[0], int):
            module = FixedRows(module, shape[0])
        if all(isinstance(side, int) for side in shape[1:]):
            module.input_shape = tuple(shape[1:])  # type: ignore[assignment]
        return module


class FixedRows(nn.Module):
    """A program that was exported for one number of rows, asked that many at a time; the last are repeated."""

    def __init__(self, program: nn.Module, rows: int) -> None:
        super().__init__()
        self._program, self._rows = program, rows
        self.notes = (
            f"The model was exported for batches of {rows}: rows are asked {rows} at a time. With a dynamic first "
            "dimension (dynamic_shapes of torch.export.export) it answers many at once.",
        )

    def train(self, mode: bool = True) -> FixedRows:  # noqa: ARG002
        """An exported program has its mode built in."""
        return self

    def forward(self, x: Tensor) -> Any:
        """The program's answers, in order."""
        parts = []
        for part in torch.split(x, self._rows):
            full = torch.cat([part, part[-1:].expand(self._rows - len(part), *part.shape[1:])])
            parts.append(_first(self._program(full), len(part)))
        return _joined(parts)


def _first(answer: Any, rows: int) -> Any:
    """That many rows of a tensor, or of each in a dictionary or a tuple."""
    if isinstance(answer, Mapping):
        return {name: _first(part, rows) for name, part in answer.items()}
    if isinstance(answer, tuple | list):
        return tuple(_first(part, rows) for part in answer)
    return answer[:rows]


def _joined(parts: list[Any]) -> Any:
    """Answers below each other."""
    if isinstance(parts[0], dict):
        return {name: _joined([part[name] for part in parts]) for name in parts[0]}
    if isinstance(parts[0], tuple):
        return tuple(_joined(list(each)) for each in zip(*parts, strict=True))
    return torch.cat(parts)
