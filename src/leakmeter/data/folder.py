"""Image folders: one sub-folder per class, classes numbered in the order of their names; or loose images, unlabelled.

`train/` and `test/` sub-folders, where there are both, are the two splits.
"""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leakmeter.data.dataset import Dataset, Split, from_pixels, read_bytes
from leakmeter.errors import UsageError
from leakmeter.files import check_announced

_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".pgm")
_FORMATS = ("PNG", "JPEG", "BMP", "PPM")  # none that Pillow would hand to an outside program
_DEFLATED = 1032  # bytes that one byte can stand for at most; JPEG has no such bound
_GREY = ("1", "L")
_COLOUR = ("P", "RGB")


def load(path: Path, split: Split) -> Dataset:
    """The images below `path`, all of one size; grey if every one is, else RGB."""
    if {"train", "test"} <= {child.name for child in _children(path)}:
        classes = sorted({name for part in ("train", "test") for name in _classes(path / part)})
        return _load_all(path / ("train" if split == "train" else "test"), path.name, classes)
    return _load_all(path, path.name, _classes(path)).holdout(split)


def parse(raw: bytes, source: str) -> NDArray[np.uint8]:
    """One image as [C, H, W], C being 1 for grey and 3 for colour."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(raw), formats=_FORMATS) as image:
            check_announced(source, 4 * 3 * image.width * image.height)
            if image.format != "JPEG" and image.width * image.height > 8 * _DEFLATED * len(raw):
                raise ValueError(f"{image.width}×{image.height} pixels announced in {len(raw):,} bytes")
            image.load()
            mode = image.mode
            pixels = np.asarray(image.convert("L" if mode in _GREY else "RGB"))
    except UsageError:
        raise
    except Exception as error:  # decoders raise whatever the damaged bytes lead to
        raise UsageError(f"expected an image ({', '.join(_FORMATS)}) in {source}, got {error!r}") from error
    if mode not in _GREY + _COLOUR:
        raise UsageError(f"expected a grey or RGB image of 8 bits in {source}, got mode {mode}; convert it")
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def _load_all(path: Path, name: str, classes: list[str]) -> Dataset:
    groups = [path / label for label in classes if (path / label).exists()] if classes else [path]
    files = {group: [_image_file(file) for file in _children(group)] for group in groups}
    images: list[NDArray[np.uint8]] = []
    for file in (file for group in groups for file in files[group]):
        images.append(parse(read_bytes(file), str(file)))
        check_announced(path, 4 * images[0].size * sum(map(len, files.values())))
        _check_size(images[0], images[-1], path)
    if not images:
        raise UsageError(f"expected images ({' '.join(_SUFFIXES)}) in {path}, got none")
    labels = [classes.index(group.name) for group in groups for _ in files[group]] if classes else None
    found = from_pixels(name, _stack(images), None if labels is None else np.array(labels), len(classes) or None)
    return replace(found, class_names=tuple(classes))


def _classes(path: Path) -> list[str]:
    """The names of the class folders; none where the images lie loose."""
    children = _children(path)
    loose = [child.name for child in children if not child.is_dir()]
    if loose and len(loose) < len(children):
        raise UsageError(f"expected only class folders in {path}, got the file {loose[0]} beside them; move it away")
    return [] if loose else [child.name for child in children]


def _stack(images: list[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    channels = max(len(image) for image in images)
    return np.stack([np.broadcast_to(image, (channels, *image.shape[1:])) for image in images])


def _check_size(first: NDArray[np.uint8], other: NDArray[np.uint8], path: Path) -> None:
    if first.shape[1:] != other.shape[1:]:
        (h1, w1), (h2, w2) = sorted((first.shape[1:], other.shape[1:]))
        raise UsageError(f"expected images of one size in {path}, got {h1}×{w1} and {h2}×{w2}; resize them first")


def _children(path: Path) -> list[Path]:
    try:
        return sorted(child for child in path.iterdir() if not child.name.startswith("."))
    except OSError as error:
        raise UsageError(f"cannot read the folder {path}: {error.strerror}") from error


def _image_file(path: Path) -> Path:
    if not path.is_file() or path.suffix.lower() not in _SUFFIXES:
        raise UsageError(f"expected an image ({' '.join(_SUFFIXES)}), got {path}; move it away")
    return path
