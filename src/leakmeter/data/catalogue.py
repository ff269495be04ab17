"""Every dataset by its name or path: where it is, how much of it, and how to get the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import get_args

import torch

from leakmeter.data import cifar, folder, idx, npz, svhn, table
from leakmeter.data.columns import Columns
from leakmeter.data.dataset import Dataset, Range, Split
from leakmeter.data.places import roots
from leakmeter.errors import UsageError
from leakmeter.registry import did_you_mean

DIGITS = "digits"
"""The default everyone has: the 1,797 handwritten 8×8 digits inside scikit-learn."""
POOL = "pool.npz"
"""In a dataset's folder: unlabelled images of it, used where its own files are missing."""


@dataclass(frozen=True)
class Published:
    """A published set: the sizes of its splits, and how to read and to count what is in a folder."""

    sizes: dict[Split, int]
    load: Callable[[Path, Split], Dataset | None]
    count: Callable[[Path, Split], int]
    otherwise: str = ""
    """Another way to get it than `data fetch`."""


@dataclass(frozen=True)
class Row:
    """What `leakmeter data ls` says about one split of one dataset."""

    name: str
    split: Split
    found: int
    published: int
    where: str
    note: str
    """What is wrong or missing and how to get the rest; empty where all is there."""


_DIGITS_SIZES: dict[Split, int] = {"train": 1438, "test": 359}
_MNIST_SIZES: dict[Split, int] = {"train": 60_000, "test": 10_000}
_CIFAR_SIZES: dict[Split, int] = {"train": 50_000, "test": 10_000}

PUBLISHED = {
    "mnist": Published(_MNIST_SIZES, partial(idx.load, name="mnist"), idx.count),
    "fashion-mnist": Published(
        _MNIST_SIZES, partial(idx.load, name="fashion-mnist"), idx.count, "apt install dataset-fashion-mnist"
    ),
    "cifar10": Published(
        _CIFAR_SIZES, partial(cifar.load, variant=cifar.CIFAR10), partial(cifar.count, variant=cifar.CIFAR10)
    ),
    "cifar100": Published(
        _CIFAR_SIZES, partial(cifar.load, variant=cifar.CIFAR100), partial(cifar.count, variant=cifar.CIFAR100)
    ),
    "svhn": Published({"train": 73_257, "test": 26_032}, svhn.load, svhn.count),
}
NAMES = (DIGITS, *PUBLISHED)


def load(
    name: str,
    split: Split = "train",
    data_dir: Path | None = None,
    *,
    columns: Columns | None = None,
    target: str | None = None,
    names: Sequence[str] | None = None,
    bounds: Range | None = None,
) -> Dataset:
    """One split of a dataset: a name of the catalogue, or the path of an `.npz`, a table or an image folder.

    `columns`, `target` and `names` are for tables; see `leakmeter.data.table.load`. `bounds` is what float images lie
    in, where that is not [0, 1].

    A set of which only some is there loads what there is, and its `partial` says so. A path that holds one set is
    parted into a fixed train and test part, so that the two never overlap.
    """
    if split not in get_args(Split):
        raise UsageError(f"expected the split train or test, got '{split}'")
    if name in NAMES:
        part: Split = "train" if split == "train" else "test"
        return _load_digits(part) if name == DIGITS else _load_published(name, part, data_dir)
    path = Path(name).expanduser()
    if path.suffix == ".npz":
        return npz.load(path, split, bounds=bounds)
    if path.suffix.lower() in table.SUFFIXES:
        return table.load(path, split, columns, target, names)
    if path.is_dir():
        return folder.load(path, split)
    known = ", ".join(NAMES)
    raise UsageError(
        f"unknown dataset '{name}'{did_you_mean(name, NAMES)} (known: {known}, or the path "
        "of an .npz, .csv, .parquet or image folder)"
    )


def listing(data_dir: Path | None = None) -> list[Row]:
    """A row for every split of every dataset; looks at headers and sizes, not at whole files."""
    embedded = [Row(DIGITS, split, n, n, "scikit-learn", "") for split, n in _DIGITS_SIZES.items()]
    return embedded + [_row(name, split, data_dir) for name, known in PUBLISHED.items() for split in known.sizes]


def how_to_get(name: str) -> str:
    """The command that brings a published dataset."""
    other = PUBLISHED[name].otherwise
    return f"run: leakmeter data fetch {name}" + (f" (or: {other})" if other else "")


def _load_digits(split: Split) -> Dataset:
    """The fixed train or test part (four to one), scaled from 0..16 to [0, 1]."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    x = torch.from_numpy(digits.images).float().div_(16).unsqueeze(1)
    return Dataset(DIGITS, x, torch.from_numpy(digits.target).long(), classes=10).holdout(split)


def _load_published(name: str, split: Split, data_dir: Path | None) -> Dataset:
    known = PUBLISHED[name]
    for place in _places(name, data_dir):
        try:
            dataset = known.load(place, split) or _load_pool(place, split, name)
        except OSError as error:
            raise UsageError(f"cannot read {place}: {error.strerror}") from error
        if dataset is not None:
            return replace(dataset, partial=_partial(len(dataset), known.sizes[split], labelled=dataset.y is not None))
    looked = ", ".join(map(str, _places(name, data_dir)))
    raise UsageError(f"expected the {split} files of {name} in one of {looked}, got none; {how_to_get(name)}")


def _places(name: str, data_dir: Path | None) -> list[Path]:
    if data_dir is not None and not Path(data_dir).is_dir():
        raise UsageError(f"expected a data folder, got {data_dir}, which is none; mend the path or leave it out")
    return [root / name for root in roots(data_dir)]


def _load_pool(place: Path, split: Split, name: str) -> Dataset | None:
    pool = place / POOL
    return npz.load(pool, split, name) if split == "train" and pool.is_file() else None


def _partial(found: int, published: int, *, labelled: bool) -> str:
    size = "" if found >= published else f"{found:,} of {published:,} images"
    return ", ".join(part for part in (size, "" if labelled else "no labels") if part)


def _row(name: str, split: Split, data_dir: Path | None) -> Row:
    known = PUBLISHED[name]
    size = known.sizes[split]
    for place in _places(name, data_dir):
        try:
            counted = known.count(place, split)
            pool = None if counted else _load_pool(place, split, name)
        except (UsageError, OSError) as error:
            return Row(name, split, 0, size, str(place), str(error))
        if found := counted or len(pool or ()):
            missing = _partial(found, size, labelled=pool is None)
            return Row(
                name, split, found, size, str(place), f"partial: {missing}; {how_to_get(name)}" if missing else ""
            )
    return Row(name, split, 0, size, "", how_to_get(name))
