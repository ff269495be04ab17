"""CIFAR's python batches, which are pickles, read without running anything they name.

A pickle may call any function it can import. Here the few names a batch uses stand for inert recorders of what they
were given, every other name is refused, and opcodes a batch has no use for do not exist. NumPy itself never sees the
untrusted state: the array is rebuilt from its recorded bytes after they were checked.
"""

from __future__ import annotations

import io
import pickle
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from leakmeter.errors import UsageError

_PIXELS = 3 * 32 * 32


class _Recorder:
    """Stands for an array or a dtype: keeps the arguments and the state."""

    def __init__(self, *args: object) -> None:
        self.args = args
        self.state: Any = None

    def __setstate__(self, state: object) -> None:
        self.state = state


_KNOWN = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
}

_OPCODES = frozenset(
    b"".join(
        [
            *(pickle.PROTO, pickle.FRAME, pickle.STOP, pickle.MARK),
            *(
                pickle.NONE,
                pickle.NEWTRUE,
                pickle.NEWFALSE,
                pickle.BININT,
                pickle.BININT1,
                pickle.BININT2,
                pickle.LONG1,
            ),
            *(pickle.BINSTRING, pickle.SHORT_BINSTRING, pickle.BINBYTES, pickle.SHORT_BINBYTES),
            *(pickle.BINUNICODE, pickle.SHORT_BINUNICODE, pickle.EMPTY_DICT, pickle.SETITEM, pickle.SETITEMS),
            *(pickle.EMPTY_LIST, pickle.APPEND, pickle.APPENDS),
            *(pickle.EMPTY_TUPLE, pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3),
            *(pickle.BINPUT, pickle.LONG_BINPUT, pickle.MEMOIZE, pickle.BINGET, pickle.LONG_BINGET),
            *(pickle.GLOBAL, pickle.STACK_GLOBAL, pickle.REDUCE, pickle.BUILD),
        ]
    )
)


class _BatchUnpickler(pickle._Unpickler):
    """The interpreter in Python, whose opcodes can be taken away and whose memo cannot be made to fill the memory."""

    dispatch: ClassVar = {code: act for code, act in pickle._Unpickler.dispatch.items() if code in _OPCODES}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _KNOWN:
            raise UsageError(
                f"expected a CIFAR batch made of lists, text and NumPy arrays only, got a pickle that asks for "
                f"{module}.{name}; do not trust this file"
            )
        return _Recorder


def parse(raw: bytes, source: str, label_key: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images [N, 3, 32, 32] and labels of one batch; nothing in the file is executed."""
    try:
        batch = _BatchUnpickler(io.BytesIO(raw), encoding="bytes").load()
    except UsageError as error:
        raise UsageError(f"{source}: {error}") from error
    except Exception as error:  # damaged opcodes fail in every way there is
        raise UsageError(f"expected a CIFAR python batch in {source}, got a damaged pickle ({error!r})") from error
    if not isinstance(batch, dict):
        raise UsageError(f"expected a dictionary in the CIFAR python batch {source}, got {type(batch).__name__}")
    return _images(_entry(batch, "data"), source), _labels(_entry(batch, label_key), source, label_key)


def _entry(batch: dict[object, object], key: str) -> object:
    """The published files have byte keys, Python 3 writes text keys."""
    return batch.get(key.encode(), batch.get(key))


def _images(data: object, source: str) -> NDArray[np.uint8]:
    state = data.state if isinstance(data, _Recorder) else None
    match state:  # the version, the shape, the dtype, whether in Fortran's order, the bytes
        case (_, (int() as n, 3072), _Recorder(args=(b"u1" | "u1", *_)), bool() as fortran, bytes() as raw):
            if len(raw) == n * _PIXELS:
                rows = np.frombuffer(raw, np.uint8).reshape((n, _PIXELS), order="F" if fortran else "C")
                return rows.reshape(n, 3, 32, 32)
    raise UsageError(f"expected under 'data' in {source} an array of bytes [N, {_PIXELS}], got something else")


def _labels(labels: object, source: str, key: str) -> NDArray[np.int64]:
    if not isinstance(labels, list) or not all(type(label) is int and 0 <= label < 256 for label in labels):
        raise UsageError(f"expected a list of small whole numbers under '{key}' in {source}, got something else")
    return np.array(labels, np.int64)
