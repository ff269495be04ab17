"""An ONNX file looked at before onnxruntime opens it in this process: no files elsewhere, no sizes beyond its content.

What a file computes cannot be read off it: an operator can make gigabytes of two numbers. So the file is also opened
and asked once in a process of its own, whose memory and time are limited; a crash of the parser ends only that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from leakmeter.errors import UsageError
from leakmeter.files import check_announced
from leakmeter.trial import tried

_PARTS = {  # messages within messages of onnx.proto, by field
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
}
_DIMS, _EXTERNAL = 1, 13
_PER_BYTE = 8  # the most numbers that a byte can hold
_DEEPEST = 50


def check_onnx(path: Path) -> None:
    """Refuses, in a sentence, a file that is none or that would take more than it may."""
    raw = path.read_bytes()
    try:
        _walk(memoryview(raw), "model", path, 0)
    except (ValueError, IndexError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"{path} is not an ONNX model: {error}") from error
    tried("leakmeter.victims.onnx_trial", path)


def _walk(message: memoryview, kind: str, path: Path, depth: int) -> None:
    if depth > _DEEPEST:
        raise ValueError("it is nested too deep")
    dims: list[int] = []
    held = len(message)
    for field, value in _fields(message):
        if kind == "tensor":
            if field == _EXTERNAL and isinstance(value, memoryview):
                held += _size_beside(value, path)
            if field == _DIMS:
                dims += [value] if isinstance(value, int) else _varints(value)
        elif isinstance(value, memoryview) and field in _PARTS[kind]:
            _walk(value, _PARTS[kind][field], path, depth + 1)
    if math.prod(dims) > _PER_BYTE * held:
        raise ValueError(f"a tensor of shape {dims[:8]} has {held:,} bytes")


def _size_beside(entry: memoryview, path: Path) -> int:
    """The size of the file of weights that an entry names, which must lie in the folder of the model."""
    said = {field: bytes(value) for field, value in _fields(entry) if isinstance(value, memoryview)}
    if said.get(1) != b"location":
        return 0
    folder = path.resolve().parent
    place = (folder / said.get(2, b"").decode(errors="replace").replace("\0", "")).resolve()
    if place.parent != folder or not place.is_file():
        raise UsageError(f"{path} keeps weights in a file that does not lie beside it; save it as one")
    check_announced(place, place.stat().st_size)
    return place.stat().st_size


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Field numbers and values of a protocol buffer."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        match key & 7:
            case 0:
                value, at = _varint(message, at)
                yield key >> 3, value
                continue
            case 1:
                size = 8
            case 2:
                size, at = _varint(message, at)
            case 5:
                size = 4
            case other:
                raise ValueError(f"it holds a field of wire type {other}")
        if at + size > len(message):
            raise ValueError("it is cut short")
        yield key >> 3, message[at : at + size]
        at += size


def _varints(packed: memoryview) -> list[int]:
    found, at = [], 0
    while at < len(packed):
        value, at = _varint(packed, at)
        found.append(value)
        if len(found) > _DEEPEST:
            raise ValueError("a tensor has too many dimensions")
    return found


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError("it holds a number without an end")
