"""IDX, the format of MNIST and Fashion-MNIST: a magic number, the dimensions, then bytes; gzipped or not."""

from __future__ import annotations

import gzip
import io
import math
import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leakmeter.data.dataset import Dataset, Split, from_pixels, read_bytes
from leakmeter.errors import UsageError
from leakmeter.files import check_announced

_GZIP = b"\x1f\x8b"
_UNSIGNED_BYTE = 8
_CLASSES = 10
_PREFIX = {"train": "train", "test": "t10k"}


def load(folder: Path, split: Split, name: str) -> Dataset | None:
    """The split in `folder`, or None where neither of its two files is there."""
    images, labels = _files(folder, split)
    if images is None and labels is None:
        return None
    if images is None or labels is None:
        have, lack = ("labels", "images") if images is None else ("images", "labels")
        raise UsageError(
            f"expected the {split} images and labels of {name} in {folder}, got only the {have}; add the {lack}"
        )
    x = parse(read_bytes(images), str(images), dimensions=3)
    y = parse(read_bytes(labels), str(labels), dimensions=1)
    if len(x) != len(y):
        raise UsageError(f"expected as many labels as images, got {len(x):,} in {images} and {len(y):,} in {labels}")
    if y.max(initial=0) >= _CLASSES:
        raise UsageError(f"expected labels from 0 to {_CLASSES - 1} in {labels}, got {y.max()}")
    return from_pixels(name, x[:, None], y, _CLASSES)


def count(folder: Path, split: Split) -> int:
    """How many images the header announces; 0 where there is no such file."""
    images, _ = _files(folder, split)
    if images is None:
        return 0
    try:
        with gzip.open(images) if images.suffix == ".gz" else images.open("rb") as file:
            head = file.read(16)
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"cannot read {images}: {error}") from error
    return _shape(head, str(images), dimensions=3)[0]


def parse(raw: bytes, source: str, dimensions: int) -> NDArray[np.uint8]:
    """The array in the bytes of an IDX file, which must have exactly the size its header announces."""
    if raw.startswith(_GZIP):
        raw = _unzipped(raw, source, dimensions)
    shape = _shape(raw, source, dimensions)
    start = 4 + 4 * dimensions
    if len(raw) - start != math.prod(shape):
        raise UsageError(
            f"expected {math.prod(shape):,} bytes after the header of {source} (shape {list(shape)}), "
            f"got {len(raw) - start:,}; fetch it again"
        )
    return np.frombuffer(raw, np.uint8, offset=start).reshape(shape)


def _unzipped(raw: bytes, source: str, dimensions: int) -> bytes:
    """No more than one byte beyond what the header announces, once that is known to be little enough."""
    try:
        with gzip.open(io.BytesIO(raw)) as file:
            head = file.read(4 + 4 * dimensions)
            announced = math.prod(_shape(head, source, dimensions))
            check_announced(source, 4 * announced)
            return head + file.read(announced + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"expected whole gzip data in {source}, got damaged data ({error}); fetch it again") from error


def _shape(raw: bytes, source: str, dimensions: int) -> tuple[int, ...]:
    magic = bytes([0, 0, _UNSIGNED_BYTE, dimensions])
    if not raw.startswith(magic) or len(raw) < 4 + 4 * dimensions:
        raise UsageError(
            f"expected an IDX file of bytes in {dimensions} dimensions (it starts with {magic.hex(' ')}) in {source}, "
            f"got {len(raw):,} bytes starting with {raw[:4].hex(' ') or 'nothing'}"
        )
    return struct.unpack_from(f">{dimensions}I", raw, 4)


def _files(folder: Path, split: Split) -> tuple[Path | None, Path | None]:
    prefix = _PREFIX[split]
    return _either(folder / f"{prefix}-images-idx3-ubyte"), _either(folder / f"{prefix}-labels-idx1-ubyte")


def _either(path: Path) -> Path | None:
    zipped = path.with_name(path.name + ".gz")
    return next((candidate for candidate in (zipped, path) if candidate.is_file()), None)
