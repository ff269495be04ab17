"""States on disk: written whole or not at all, at most every few seconds, and never read where a byte has changed."""

from __future__ import annotations

import hashlib
import io
import time
from pathlib import Path
from typing import Protocol

import torch

from leakmeter.errors import Inconclusive
from leakmeter.files import write_atomic, writing

_SECONDS = 5.0
_MAGIC = b"LKMC1\n"


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
            content = self._path.read_bytes()
            start = len(_MAGIC) + hashlib.sha256().digest_size
            if content[:start] != _MAGIC + hashlib.sha256(content[start:]).digest():
                raise ValueError("its checksum differs")
            state: dict[str, object] = torch.load(io.BytesIO(content[start:]), weights_only=True)
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
        content = buffer.getvalue()
        with writing(self._path):
            write_atomic(self._path, _MAGIC + hashlib.sha256(content).digest() + content)
        self._last = time.monotonic()
