"""CIFAR-10 and CIFAR-100 in their binary form (fixed-length records) and their python form (pickles)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakmeter.data import cifar_pickle
from leakmeter.data.dataset import Dataset, Split, from_pixels, read_bytes
from leakmeter.errors import UsageError

_PIXELS = 3 * 32 * 32


@dataclass(frozen=True)
class Variant:
    """How one of the two sets is laid out."""

    name: str
    classes: int
    label_bytes: int
    """Binary form: CIFAR-100 stores the coarse label, then the fine one; the last byte is the label."""
    label_key: str
    binary_folder: str
    python_folder: str
    stems: dict[Split, tuple[str, ...]]


CIFAR10 = Variant(
    name="cifar10",
    classes=10,
    label_bytes=1,
    label_key="labels",
    binary_folder="cifar-10-batches-bin",
    python_folder="cifar-10-batches-py",
    stems={"train": tuple(f"data_batch_{i}" for i in range(1, 6)), "test": ("test_batch",)},
)
CIFAR100 = Variant(
    name="cifar100",
    classes=100,
    label_bytes=2,
    label_key="fine_labels",
    binary_folder="cifar-100-binary",
    python_folder="cifar-100-python",
    stems={"train": ("train",), "test": ("test",)},
)


def load(folder: Path, split: Split, variant: Variant) -> Dataset | None:
    """The batches of that split that are in `folder`, or None where there is none."""
    batches = [parse(read_bytes(path), path, variant) for path in _files(folder, split, variant)]
    if not batches:
        return None
    images, labels = zip(*batches, strict=True)
    return from_pixels(variant.name, np.concatenate(images), np.concatenate(labels), variant.classes)


def count(folder: Path, split: Split, variant: Variant) -> int:
    """How many images the batches there hold; the binary form tells by its size."""
    record = variant.label_bytes + _PIXELS
    return sum(
        path.stat().st_size // record if path.suffix == ".bin" else len(parse(read_bytes(path), path, variant)[1])
        for path in _files(folder, split, variant)
    )


def parse(raw: bytes, path: Path, variant: Variant) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    """Images [N, 3, 32, 32] and labels of one batch; `.bin` means the binary form."""
    images: NDArray[np.uint8]
    labels: NDArray[Any]
    if path.suffix == ".bin":
        images, labels = _parse_binary(raw, str(path), variant)
    else:
        images, labels = cifar_pickle.parse(raw, str(path), variant.label_key)
    if len(images) != len(labels) or len(images) == 0:
        raise UsageError(f"expected images and a label for each in {path}, got {len(images)} and {len(labels)}")
    if labels.max() >= variant.classes:
        raise UsageError(f"expected labels from 0 to {variant.classes - 1} in {path}, got {labels.max()}")
    return images, labels


def _parse_binary(raw: bytes, source: str, variant: Variant) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    record = variant.label_bytes + _PIXELS
    if not raw or len(raw) % record:
        raise UsageError(
            f"expected whole records of {record:,} bytes in {source}, got {len(raw):,} bytes "
            f"({len(raw) // record:,} records and {len(raw) % record:,} bytes over); fetch it again"
        )
    rows = np.frombuffer(raw, np.uint8).reshape(-1, record)
    return rows[:, variant.label_bytes :].reshape(-1, 3, 32, 32), rows[:, variant.label_bytes - 1]


def _files(folder: Path, split: Split, variant: Variant) -> list[Path]:
    """The batches of the form that has the most of them, in the published folder or directly in `folder`."""
    stems = variant.stems[split]
    forms = [
        [folder / inner / f"{stem}{suffix}" for stem in stems]
        for inner, suffix in ((variant.binary_folder, ".bin"), ("", ".bin"), (variant.python_folder, ""), ("", ""))
    ]
    return max(([path for path in form if path.is_file()] for form in forms), key=len)
