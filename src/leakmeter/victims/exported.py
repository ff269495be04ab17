"""A `torch.export` program (`.pt2`): gradients still flow through it."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from leakmeter.errors import UsageError, first_line
from leakmeter.victims.kind import FileKind, Request
from leakmeter.victims.pt2 import harmless_program


class ExportedKind(FileKind):
    """Programs of one input whose first dimension is free."""

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
        if isinstance(shape[0], int):
            raise UsageError(
                f"{path} was exported for batches of {shape[0]} only; export it with a dynamic first dimension: "
                "torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim('n')},))"
            )
        module: nn.Module = program.module()
        if all(isinstance(side, int) for side in shape[1:]):
            module.input_shape = tuple(shape[1:])  # type: ignore[assignment]
        return module
