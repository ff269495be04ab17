"""The replay log: every answer received, appended as it came, so that a killed run never pays for one twice.

A record is a fixed header (piece id, digest of the question, length and checksum of the payload) and a payload in
safetensors form. Memory does not grow with the log: a run appends, and a resumed run reads headers first and payloads
one at a time. A record cut short by a kill is dropped; damage anywhere else is an error.
"""

from __future__ import annotations

import hashlib
import os
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from leakmeter.errors import Inconclusive, UsageError

_HEADER = struct.Struct("<4sQQ32s16s")  # magic, piece id, payload length, question digest, payload checksum
_MAGIC = b"LKM1"


@dataclass(frozen=True)
class Record:
    """Where one logged answer lies."""

    ask: int
    digest: bytes
    offset: int
    length: int
    checksum: bytes


def digest(x: Tensor) -> bytes:
    """A fingerprint of a question: equal only for the same numbers in the same shape and type."""
    head = f"{x.dtype}{tuple(x.shape)}".encode()
    return hashlib.sha256(head + x.contiguous().cpu().numpy().tobytes()).digest()


class AnswerLog:
    """One append-only file."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "answers.bin"
        self._lock = threading.Lock()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise UsageError(f"cannot write the answers to {self.path}: {error.strerror}") from error
        self._end = self._whole_end()
        os.ftruncate(self._file, self._end)

    def append(self, ask: int, question: bytes, columns: dict[str, Tensor]) -> None:
        """Writes one record; either all of it stays or none."""
        payload = safetensors.torch.save({name: column.contiguous() for name, column in columns.items()})
        record = _HEADER.pack(_MAGIC, ask, len(payload), question, _checksum(payload)) + payload
        with self._lock:
            try:
                written = os.pwrite(self._file, record, self._end)
                if written != len(record):
                    raise OSError(28, "No space left on device")
            except OSError as error:
                os.ftruncate(self._file, self._end)
                raise UsageError(
                    f"cannot write the answers to {self.path}: {error.strerror}; free space, then use --resume"
                ) from error
            self._end += len(record)

    def records(self) -> Iterator[Record]:
        """The headers of all whole records, in the order they were written."""
        at = 0
        while at < self._end:
            magic, ask, length, question, checksum = _HEADER.unpack(os.pread(self._file, _HEADER.size, at))
            if magic != _MAGIC:
                raise Inconclusive(f"the answer log {self.path} is damaged at byte {at}; restore it or start a new run")
            yield Record(ask, question, at + _HEADER.size, length, checksum)
            at += _HEADER.size + length

    def read(self, record: Record) -> dict[str, Tensor]:
        """The columns of one answer, after checking that they are what was written."""
        payload = os.pread(self._file, record.length, record.offset)
        try:
            if _checksum(payload) != record.checksum:
                raise ValueError("checksum differs")
            columns: dict[str, Tensor] = safetensors.torch.load(payload)
        except (SafetensorError, ValueError) as error:
            raise Inconclusive(
                f"the answer log {self.path} is damaged at byte {record.offset}; restore it or start a new run"
            ) from error
        return columns

    def close(self) -> None:
        """Lets go of the file."""
        os.close(self._file)

    def _whole_end(self) -> int:
        """Where the last whole record ends: a kill can leave part of one behind it."""
        size, at = os.fstat(self._file).st_size, 0
        while at + _HEADER.size <= size:
            magic, _, length, _, _ = _HEADER.unpack(os.pread(self._file, _HEADER.size, at))
            if magic != _MAGIC:
                raise Inconclusive(f"the answer log {self.path} is damaged at byte {at}; restore it or start a new run")
            if at + _HEADER.size + length > size:
                break
            at += _HEADER.size + length
        return at


def _checksum(payload: bytes) -> bytes:
    return hashlib.sha256(payload).digest()[:16]


def on_cpu(columns: dict[str, Tensor]) -> dict[str, Tensor]:
    """Ordinary tensors in main memory: ones made in inference mode cannot take part in an attack's training."""
    return {name: column.detach().cpu().clone() for name, column in columns.items()}
