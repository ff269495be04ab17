"""SVHN's cropped digits: a MATLAB file with X [32, 32, 3, N] and y [N, 1], in which label 10 means the digit 0."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakmeter.data.dataset import Dataset, Split, from_pixels
from leakmeter.errors import UsageError


def load(folder: Path, split: Split) -> Dataset | None:
    """The split in `folder`, or None where its file is not there."""
    path = _file(folder, split)
    if not path.is_file():
        return None
    images, labels = parse(path)
    return from_pixels("svhn", images, labels, classes=10)


def count(folder: Path, split: Split) -> int:
    """How many images the file's header announces; 0 where it is not there."""
    from scipy.io import whosmat

    path = _file(folder, split)
    if not path.is_file():
        return 0
    try:
        n = next(int(shape[3]) for name, shape, _ in whosmat(path, appendmat=False) if name == "X")
        if n < 0:
            raise ValueError(f"{n} images")
    except Exception as error:  # as in parse
        raise _damaged(path, error) from error
    return n


def parse(path: Path) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    """Images [N, 3, 32, 32] and labels 0 to 9."""
    from scipy.io import loadmat, whosmat

    try:
        # A damaged header can announce sizes at which the reader crashes; deflate never expands more than 1032 times.
        most = 1032 * path.stat().st_size
        for name, shape, _ in whosmat(path, appendmat=False):
            if any(side < 0 for side in shape) or math.prod(shape) > most:
                raise ValueError(f"{name} of shape {shape}")
        content = loadmat(path, appendmat=False, variable_names=("X", "y"))
    except Exception as error:  # the reader raises whatever the damaged bytes lead to
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
    return UsageError(f"expected the MATLAB file of SVHN in {path}, got one that cannot be read ({error!r})")
