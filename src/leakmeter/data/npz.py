"""Users' own arrays: an `.npz` with `x` and, where there are labels, `y`; or the same with `_train` and `_test`.

Without the suffixes it is one set: whole as test data, unless an arm of the audit learns from the same file; then four
rows in five are the pool and one is tested.

uint8 means pixels and is divided by 255; floats are taken as they are. Images are N×H×W, N×C×H×W or N×H×W×C with one
or three channels; [N, d] are features. Objects (pickles) in the file are never loaded.
"""

from __future__ import annotations

import io
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from leakmeter.data.dataset import Dataset, Range, Split, from_pixels, read_bytes
from leakmeter.errors import UsageError
from leakmeter.files import check_announced

_INPUTS = ("x", "images")
_LABELS = ("y", "labels")


def load(path: Path, split: Split, name: str | None = None, bounds: Range | None = None) -> Dataset:
    """The split: `x_train`/`x_test` where the file has them, else the fixed held-out part of `x` (see `holdout`).

    `bounds`: what float images lie in; None: [0, 1].
    """
    arrays = parse(read_bytes(path), str(path))
    return select(arrays, split, name or path.stem, str(path), bounds)


def parse(raw: bytes, source: str) -> dict[str, NDArray[Any]]:
    """Every array in the bytes of an `.npz`."""
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            infos = archive.infolist()
            check_announced(source, sum(info.file_size for info in infos))
            return {info.filename.removesuffix(".npy"): _array(archive, info) for info in infos}
    except UsageError:
        raise
    except Exception as error:  # zip, zlib and npy headers each fail in their own ways
        raise UsageError(
            f"expected an .npz of plain arrays in {source} (np.savez(path, x=..., y=...)), got {error!r}"
        ) from error


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    """One array; numpy itself would allocate whatever its header announces."""
    with archive.open(info) as file:
        version = np.lib.format.read_magic(file)
        readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, fortran, dtype = readers[version](file)
        content = file.read()
    if dtype.hasobject:
        raise ValueError(f"objects in {info.filename}, which are never loaded")
    if math.prod(shape) * dtype.itemsize != len(content):
        raise ValueError(f"{len(content):,} bytes for the shape {shape} of {info.filename}")
    return np.frombuffer(content, dtype).reshape(shape, order="F" if fortran else "C")


def select(
    arrays: dict[str, NDArray[Any]], split: Split, name: str, source: str, bounds: Range | None = None
) -> Dataset:
    """The dataset those arrays make."""
    has_splits = any(key.endswith(("_train", "_test")) for key in arrays)
    suffix = ("_train" if split == "train" else "_test") if has_splits else ""
    x = _named(arrays, _INPUTS, suffix)
    if x is None:
        raise UsageError(f"expected an array named x{suffix} in {source}, got {', '.join(arrays) or 'no arrays'}")
    y = _named(arrays, _LABELS, suffix)
    labels = None if y is None else _whole_numbers(y, source)
    classes = None if y is None else _classes(arrays, source)
    dataset = _dataset(name, channels_first(x, source), labels, classes, source, bounds or (0.0, 1.0))
    return dataset if has_splits else dataset.holdout(split)


def channels_first(x: NDArray[Any], source: str) -> NDArray[Any]:
    """[N, d] as it is, anything that is clearly images as [N, C, H, W]."""
    if x.ndim == 2:
        return x
    if x.ndim == 3:
        return x[:, None]
    first, last = (x.ndim == 4 and x.shape[axis] in (1, 3) for axis in (1, 3))
    if first == last:
        raise UsageError(
            f"expected features [N, d] or images with 1 or 3 channels, [N, C, H, W] or [N, H, W, C], in {source}, "
            f"got {list(x.shape)}, where {'both ends fit' if first else 'neither fits'}; reshape it"
        )
    return x if first else x.transpose(0, 3, 1, 2)


def _dataset(
    name: str, x: NDArray[Any], labels: NDArray[Any] | None, classes: int | None, source: str, bounds: Range
) -> Dataset:
    if labels is not None and len(labels) != len(x):
        raise UsageError(f"expected one label for each of the {len(x):,} rows of {source}, got {len(labels):,}")
    if x.dtype == np.uint8:
        return from_pixels(name, x, labels, classes)
    if x.dtype.kind != "f":
        raise UsageError(f"expected uint8 or float inputs in {source}, got {x.dtype}; convert them")
    with np.errstate(over="ignore", invalid="ignore"):  # what does not fit becomes infinite, which Dataset refuses
        floats = x.astype(np.float32, order="C")
    y = None if labels is None else torch.from_numpy(labels)
    return Dataset(name, torch.from_numpy(floats), y, classes, range=bounds, pixels=False)


def _classes(arrays: dict[str, NDArray[Any]], source: str) -> int:
    """One more than the highest label of any split: the test part may lack the last class."""
    parts = [_named(arrays, _LABELS, suffix) for suffix in ("", "_train", "_test")]
    return 1 + max(int(_whole_numbers(part, source).max(initial=0)) for part in parts if part is not None)


def _whole_numbers(y: NDArray[Any], source: str) -> NDArray[np.int64]:
    if y.dtype.kind not in "iu" or y.ndim not in (1, 2) or y.size != len(y):
        raise UsageError(f"expected whole-number labels [N] in {source}, got {y.dtype} {list(y.shape)}")
    return y.reshape(-1).astype(np.int64)


def _named(arrays: dict[str, NDArray[Any]], names: tuple[str, ...], suffix: str) -> NDArray[Any] | None:
    return next((arrays[name + suffix] for name in names if name + suffix in arrays), None)
