"""Universal Binary JSON, as far as XGBoost writes it: reading one is plain bytes, no code."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from leakmeter.errors import UsageError

_NUMBERS = {"i": ">i1", "U": ">u1", "I": ">i2", "l": ">i4", "L": ">i8", "d": ">f4", "D": ">f8"}
_WHOLE = {"i": ">b", "U": ">B", "I": ">h", "l": ">i", "L": ">q"}


def parse_ubjson(raw: bytes, source: str) -> dict[str, Any]:
    """The document in a `.ubj` file."""
    try:
        document = _Reader(raw).value()
    except (struct.error, KeyError, IndexError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise UsageError(f"expected an XGBoost model as UBJSON in {source}, got something else") from error
    if not isinstance(document, dict):
        raise UsageError(f"expected an XGBoost model as UBJSON in {source}, got a {type(document).__name__}")
    return document


class _Reader:
    def __init__(self, raw: bytes) -> None:
        self._raw, self._at = raw, 0

    def value(self, kind: str | None = None) -> Any:
        kind = kind or self._kind()
        if kind == "{":
            return self._object()
        if kind == "[":
            return self._array()
        if kind == "S":
            return self._text()
        if kind in "TFZ":
            return {"T": True, "F": False, "Z": None}[kind]
        return self._unpack(_NUMBERS[kind], 1)[0]

    def _object(self) -> dict[str, Any]:
        kind, count = self._header()
        found = {}
        while count != 0 if count is not None else self._peek() != "}":
            name = self._text()
            found[name] = self.value(kind)
            count = None if count is None else count - 1
        self._at += count is None
        return found

    def _array(self) -> Any:
        kind, count = self._header()
        if kind is not None and kind in _NUMBERS and count is not None:
            return self._unpack(_NUMBERS[kind], count)
        found: list[Any] = []
        while len(found) < count if count is not None else self._peek() != "]":
            found.append(self.value(kind))
        self._at += count is None
        return found

    def _header(self) -> tuple[str | None, int | None]:
        """The type of all members and their number, where they are said."""
        kind = None
        if self._peek() == "$":
            self._at += 1
            kind = self._kind()
        if self._peek() != "#":
            return kind, None
        self._at += 1
        return kind, self._length()

    def _text(self) -> str:
        size = self._length()
        self._at += size
        return self._raw[self._at - size : self._at].decode()

    def _length(self) -> int:
        code = _WHOLE[self._kind()]
        (length,) = struct.unpack_from(code, self._raw, self._at)
        self._at += struct.calcsize(code)
        if not 0 <= length <= len(self._raw):
            raise ValueError(length)
        return int(length)

    def _unpack(self, dtype: str, count: int) -> list[Any]:
        found = np.frombuffer(self._raw, dtype, count, self._at)
        self._at += found.nbytes
        return list(found.tolist())

    def _kind(self) -> str:
        self._at += 1
        return chr(self._raw[self._at - 1])

    def _peek(self) -> str:
        return chr(self._raw[self._at])
