"""A network that leakmeter wrote: weights in a `.safetensors` file, with the architecture's name inside."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from leakmeter.models.saved import load_network
from leakmeter.victims.kind import FileKind, Request


class SafetensorsKind(FileKind):
    """Substitutes and trained models of earlier runs."""

    form = "a .safetensors file leakmeter wrote"
    suffixes = (".safetensors",)

    def read(self, path: Path, request: Request) -> nn.Module:  # noqa: ARG002
        """The network."""
        return load_network(path)
