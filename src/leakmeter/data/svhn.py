"""SVHN's cropped digits: a MATLAB file with X [32, 32, 3, N] and y [N, 1], in which label 10 means the digit 0."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakmeter.data.dataset import Dataset, Split, from_pixels, read_bytes
from leakmeter.data.mat import read_arrays, read_shapes
from leakmeter.errors import UsageError

_REASONS = (ValueError, zlib.error)


def load(folder: Path, split: Split) -> Dataset | None:
    """The split in `folder`, or None where its file is not there."""
    path = _file(folder, split)
    if not path.is_file():
        return None
    images, labels = parse(path)
    return from_pixels("svhn", images, labels, classes=10)


def count(folder: Path, split: Split) -> int:
    """How many images the file's header announces; 0 where it is not there."""
    path = _file(folder, split)
    if not path.is_file():
        return 0
    try:
        shape = read_shapes(read_bytes(path), path).get("X", ())
        if len(shape) != 4:
            raise ValueError(f"X of shape {shape}")
    except _REASONS as error:
        raise _damaged(path, error) from error
    return shape[3]


def parse(path: Path) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    """Images [N, 3, 32, 32] and labels 0 to 9."""
    try:
        content = read_arrays(read_bytes(path), path)
    except _REASONS as error:
        raise _damaged(path, error) from error
    X, y = (np.asarray(content.get(name)) for name in ("X", "y"))
    if X.dtype != np.uint8 or X.ndim != 4 or X.shape[:3] != (32, 32, 3) or X.size == 0:
        raise UsageError(f"expected X as bytes [32, 32, 3, N] in {path}, got {X.dtype} {list(X.shape)}")
    n = X.shape[3]
    if y.dtype.kind not in "iuf" or y.shape != (n, 1) or not np.isin(y, np.arange(1, 11)).all():
        raise UsageError(f"expected y as labels 1 to 10, [{n}, 1], in {path}, got {y.dtype} {list(y.shape)} or others")
    return X.transpose(3, 2, 0, 1), y[:, 0] % 10


def _file(folder: Path, split: Split) -> Path:
    return folder / f"{split}_32x32.mat"


def _damaged(path: Path, error: Exception) -> UsageError:
    if isinstance(error, UsageError):
        return error
    return UsageError(f"expected the MATLAB file of SVHN in {path}, got one that cannot be read ({error!r})")
