"""States on disk: written whole or not at all, at most every few seconds."""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import Protocol

import torch

from leakmeter.errors import Inconclusive
from leakmeter.files import write_atomic, writing

_SECONDS = 5.0


class Checkpoint(Protocol):
    """Where a long computation leaves its state; `DiskCheckpoint` is one on disk."""

    def load(self) -> dict[str, object] | None:
        """The last state saved, if any."""

    def due(self) -> bool:
        """Whether it is time to save again."""

    def save(self, state: dict[str, object]) -> None:
        """Replaces the last state, all or nothing."""


class DiskCheckpoint:
    """One named state of a run. Loading never unpickles code."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last = time.monotonic()

    def load(self) -> dict[str, object] | None:
        """The last state saved, if any."""
        if not self._path.exists():
            return None
        try:
            state: dict[str, object] = torch.load(self._path, weights_only=True)
        except Exception as error:
            raise Inconclusive(f"the checkpoint {self._path} is damaged; delete it to redo that part") from error
        return state

    def due(self) -> bool:
        """Whether the last save was some seconds ago."""
        return time.monotonic() - self._last >= _SECONDS

    def save(self, state: dict[str, object]) -> None:
        """Replaces the state in one step."""
        buffer = io.BytesIO()
        torch.save(state, buffer)
        with writing(self._path):
            write_atomic(self._path, buffer.getvalue())
        self._last = time.monotonic()
