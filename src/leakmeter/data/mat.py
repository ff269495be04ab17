"""Arrays of numbers in a MATLAB 5 file, read strictly: a changed byte can crash scipy's reader, and not this one.

Only what SVHN's files hold: plain numeric arrays at the top of a little-endian file, compressed or not. Sizes are
checked before anything is allocated for them.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakmeter.files import check_announced

_TAG = struct.Struct("<II")
_HEADER = 128
_MATRIX, _COMPRESSED, _INT8, _INT32, _UINT32 = 14, 15, 1, 5, 6
_STORED = {1: "i1", 2: "u1", 3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 7: "<f4", 9: "<f8", 12: "<i8", 13: "<u8"}
_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
_DIMENSIONS = 8
_HEAD = 512  # bytes of an array that are enough for its name and shape

Described = tuple[str, tuple[int, ...], str, int]
"""Name, shape, type, and where the numbers begin."""


def read_arrays(raw: bytes, path: Path) -> dict[str, NDArray[Any]]:
    """Every array of the file by name; ValueError for whatever is not as expected."""
    return dict(map(_array, _elements(raw, path, whole=True)))


def read_shapes(raw: bytes, path: Path) -> dict[str, tuple[int, ...]]:
    """The shape of every array, without reading its numbers."""
    described = (_describe(element) for element in _elements(raw, path, whole=False))
    return {name: shape for name, shape, _, _ in described}


def _elements(raw: bytes, path: Path, *, whole: bool) -> Iterator[bytes]:
    """The content of each array at the top of the file, or only its beginning."""
    if len(raw) < _HEADER or raw[124:128] != b"\x00\x01IM":
        raise ValueError("it does not begin as a MATLAB 5 file of this kind")
    at = _HEADER
    while at < len(raw):
        kind, size = _tag(raw, at)
        content = raw[at + _TAG.size : at + _TAG.size + size]
        if len(content) != size:
            raise ValueError("it is cut short")
        at += _TAG.size + size
        if kind == _COMPRESSED:
            yield _unpacked(content, path, whole=whole)
        elif kind == _MATRIX:
            yield content
        else:
            raise ValueError(f"it holds an element of type {kind}")


def _unpacked(content: bytes, path: Path, *, whole: bool) -> bytes:
    stream = zlib.decompressobj()
    kind, size = _tag(stream.decompress(content, _TAG.size), 0)
    if kind != _MATRIX:
        raise ValueError(f"it holds a packed element of type {kind}")
    check_announced(path, size)
    wanted = size if whole else min(size, _HEAD)
    unpacked = stream.decompress(stream.unconsumed_tail, wanted) if wanted else b""
    if len(unpacked) != wanted:
        raise ValueError("a packed array is cut short")
    if whole and (stream.decompress(stream.unconsumed_tail, 1) or not stream.eof):  # reads the checksum, too
        raise ValueError("a packed array has no end")
    return unpacked


def _array(element: bytes) -> tuple[str, NDArray[Any]]:
    name, shape, kind, at = _describe(element)
    stored, numbers, _ = _part(element, at)
    if stored not in _STORED:
        raise ValueError(f"the numbers of {name!r} are of type {stored}")
    array = np.frombuffer(numbers, _STORED[stored])
    if array.size != math.prod(shape):
        raise ValueError(f"{name!r} has {array.size} numbers for the shape {shape}")
    return name, array.reshape(shape, order="F").astype(kind, copy=False)


def _describe(element: bytes) -> Described:
    flags_kind, flags, at = _part(element, 0)
    if flags_kind != _UINT32 or len(flags) != 8 or flags[0] not in _CLASSES or flags[1] & 8:
        raise ValueError("it holds something other than an array of real numbers")
    sides_kind, sides, at = _part(element, at)
    if sides_kind != _INT32 or not 8 <= len(sides) <= 4 * _DIMENSIONS or len(sides) % 4:
        raise ValueError("an array has no shape")
    shape = struct.unpack(f"<{len(sides) // 4}i", sides)
    name_kind, name, at = _part(element, at)
    if name_kind != _INT8 or not 0 < len(name) < 64 or min(shape) < 0:
        raise ValueError("an array has no name or no shape")
    return name.decode("ascii", "replace"), shape, _CLASSES[flags[0]], at


def _part(raw: bytes, at: int) -> tuple[int, bytes, int]:
    """The type and the bytes of a part, and where the next begins; a short one lies in its own tag."""
    kind, size = _tag(raw, at)
    if kind >> 16:
        kind, size, start, end = kind & 0xFFFF, kind >> 16, at + 4, at + 8
        if size > 4:
            raise ValueError("a short part is too long")
    else:
        start = at + _TAG.size
        end = start + size + -size % 8
    content = raw[start : start + size]
    if len(content) != size:
        raise ValueError("a part is cut short")
    return kind, content, end


def _tag(raw: bytes, at: int) -> tuple[int, int]:
    if len(raw) < at + _TAG.size:
        raise ValueError("it is cut short")
    kind, size = _TAG.unpack_from(raw, at)
    return kind, size
