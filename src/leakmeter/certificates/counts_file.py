"""Votes on disk: a killed certification goes on, and a finished one is read back without a forward pass."""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from leakmeter.errors import UsageError
from leakmeter.files import write_atomic, writing

_SECONDS_BETWEEN_SAVES = 5.0


@dataclass(frozen=True, eq=False)
class Tally:
    """Votes of each example (rows) for each class, and which examples are finished."""

    selection: Tensor
    counts: Tensor
    done: Tensor

    @classmethod
    def empty(cls, examples: int, classes: int) -> Tally:
        """No votes yet."""
        selection, counts = torch.zeros(2, examples, classes, dtype=torch.int64)
        return cls(selection, counts, torch.zeros(examples, dtype=torch.bool))

    def put(self, index: int, selection: Tensor, counts: Tensor) -> None:
        """Enters the votes of a finished example."""
        self.selection[index], self.counts[index], self.done[index] = selection, counts, True


class CountsFile:
    """One `.npz` file that is always whole, bound to the settings that made it."""

    def __init__(self, path: str | os.PathLike[str], settings: dict[str, object]) -> None:
        self.path, self.settings = Path(path), settings
        self._saved = time.monotonic()

    def load(self) -> Tally | None:
        """The votes saved so far, if any; an error where they belong to other inputs, models or settings."""
        if not self.path.exists():
            return None
        with np.load(self.path, allow_pickle=False) as stored:
            made_by = json.loads(str(stored["settings"]))
            differ = [key for key, value in self.settings.items() if made_by.get(key) != value]
            if differ:
                raise UsageError(
                    f"the counts in {self.path} were made with another {', '.join(differ)}; give another path"
                )
            return Tally(*(torch.from_numpy(stored[name]) for name in ("selection", "counts", "done")))

    def save_if_due(self, tally: Tally) -> None:
        """Saves when the last time is some seconds ago."""
        if time.monotonic() - self._saved >= _SECONDS_BETWEEN_SAVES:
            self.save(tally)

    def save(self, tally: Tally) -> None:
        """Replaces the file, all or nothing."""
        content = io.BytesIO()
        np.savez(
            content,
            settings=json.dumps(self.settings),
            selection=tally.selection.numpy(),
            counts=tally.counts.numpy(),
            done=tally.done.numpy(),
        )
        with writing(self.path):
            write_atomic(self.path, content.getvalue())
        self._saved = time.monotonic()


def fingerprint(*parts: object) -> str:
    """A hash of tensors and of models' weights."""
    digest = hashlib.sha256()
    for part in parts:
        for tensor in part.state_dict().values() if isinstance(part, nn.Module) else [part]:
            if isinstance(tensor, Tensor):
                digest.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
                digest.update(tensor.detach().cpu().reshape(-1).contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
