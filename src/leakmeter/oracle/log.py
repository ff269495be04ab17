"""The replay log: every answer received, appended as it came, so that a killed run never pays for one twice.

A record is a fixed header (piece id, digest of the question, length and checksum of the payload, checksum of all that)
and a payload in safetensors form. Memory does not grow with the log: a run appends, and a resumed run reads headers
first and payloads one at a time. A record cut short by a kill is dropped; damage anywhere else is an error, and the
file is then left as it is.
"""

from __future__ import annotations

import hashlib
import os
import struct
import threading
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from leakmeter.errors import Inconclusive, UsageError
from leakmeter.tensors import to_safetensors

_FIELDS = struct.Struct("<4sQQ16s16s")  # magic, piece id, payload length, question digest, payload checksum
_CHECK = struct.Struct("<I")
_HEADER = _FIELDS.size + _CHECK.size
_MAGIC = b"LKM1"


@dataclass(frozen=True, slots=True)
class LoggedAnswer:
    """Where one logged answer lies."""

    ask: int
    digest: bytes
    offset: int
    length: int
    checksum: bytes


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
        payload = to_safetensors(columns)
        fields = _FIELDS.pack(_MAGIC, ask, len(payload), question, _checksum(payload))
        record = b"".join((fields, _CHECK.pack(zlib.crc32(fields)), payload))
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

    def answers(self) -> Iterator[LoggedAnswer]:
        """The headers of all whole records, in the order they were written."""
        at = 0
        while at < self._end:
            record = self._header(at)
            yield record
            at = record.offset + record.length

    def read(self, record: LoggedAnswer) -> dict[str, Tensor]:
        """The columns of one answer, after checking that they are what was written."""
        payload = os.pread(self._file, record.length, record.offset)
        try:
            if _checksum(payload) != record.checksum:
                raise ValueError("checksum differs")
            columns: dict[str, Tensor] = safetensors.torch.load(payload)
        except (SafetensorError, ValueError) as error:
            raise self._damaged(record.offset) from error
        return columns

    def close(self) -> None:
        """Lets go of the file."""
        os.close(self._file)

    def _whole_end(self) -> int:
        """Where the last whole record ends: a kill can leave part of one behind it."""
        size, at = os.fstat(self._file).st_size, 0
        while at + _HEADER <= size:
            record = self._header(at)
            if record.offset + record.length > size:
                break
            at = record.offset + record.length
        return at

    def _header(self, at: int) -> LoggedAnswer:
        header = os.pread(self._file, _HEADER, at)
        fields = header[: _FIELDS.size]
        magic, ask, length, question, checksum = _FIELDS.unpack(fields)
        if magic != _MAGIC or header[_FIELDS.size :] != _CHECK.pack(zlib.crc32(fields)):
            raise self._damaged(at)
        return LoggedAnswer(ask, question, at + _HEADER, length, checksum)

    def _damaged(self, at: int) -> Inconclusive:
        return Inconclusive(f"the answer log {self.path} is damaged at byte {at}; restore it or start a new run")


def _checksum(payload: bytes) -> bytes:
    return hashlib.sha256(payload).digest()[:16]


def on_cpu(columns: dict[str, Tensor]) -> dict[str, Tensor]:
    """Ordinary tensors in main memory: ones made in inference mode cannot take part in an attack's training."""
    ordinary = {name: column.clone() if column.is_inference() else column for name, column in columns.items()}
    return {name: column.detach().cpu() for name, column in ordinary.items()}
