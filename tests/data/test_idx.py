from __future__ import annotations

import contextlib
import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leakmeter.data import idx
from leakmeter.data.dataset import Dataset
from leakmeter.errors import UsageError

IMAGES = np.random.default_rng(0).integers(0, 256, (3, 4, 5), dtype=np.uint8)
LABELS = np.array([9, 0, 4], np.uint8)


def idx_bytes(array: np.ndarray) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def write(folder: Path, images: bytes, labels: bytes, suffix: str = "") -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"train-images-idx3-ubyte{suffix}").write_bytes(images)
    (folder / f"train-labels-idx1-ubyte{suffix}").write_bytes(labels)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_reads_what_was_written(tmp_path, suffix):
    pack = gzip.compress if suffix else bytes
    write(tmp_path, pack(idx_bytes(IMAGES)), pack(idx_bytes(LABELS)), suffix)
    dataset = idx.load(tmp_path, "train", "mnist")
    assert np.array_equal(dataset.x.mul(255).round().numpy().astype(np.uint8)[:, 0], IMAGES)
    assert dataset.x.max() <= 1
    assert dataset.y.tolist() == [9, 0, 4]
    assert idx.count(tmp_path, "train") == 3


def test_nothing_there_is_none(tmp_path):
    assert idx.load(tmp_path, "test", "mnist") is None
    assert idx.count(tmp_path, "test") == 0


def test_a_lone_file_is_named(tmp_path):
    write(tmp_path, idx_bytes(IMAGES), idx_bytes(LABELS))
    (tmp_path / "train-labels-idx1-ubyte").unlink()
    with pytest.raises(UsageError, match="add the labels"):
        idx.load(tmp_path, "train", "mnist")


@pytest.mark.parametrize(
    ("images", "labels", "words"),
    [
        (idx_bytes(IMAGES)[:-7], idx_bytes(LABELS), r"expected 60 bytes .*images.* got 53"),
        (
            idx_bytes(LABELS),
            idx_bytes(LABELS),
            r"starts with 00 00 08 03.*images.* got 11 bytes starting with 00 00 08 01",
        ),
        (b"", idx_bytes(LABELS), "starting with nothing"),
        (gzip.compress(idx_bytes(IMAGES))[:-9], idx_bytes(LABELS), r"whole gzip data in .*images"),
        (idx_bytes(IMAGES), idx_bytes(LABELS[:2]), "as many labels as images, got 3 in .* and 2 in"),
        (idx_bytes(IMAGES), idx_bytes(LABELS + 1), "labels from 0 to 9 in .*labels.*, got 10"),
    ],
)
def test_a_wrong_file_is_named_with_what_was_expected(tmp_path, images, labels, words):
    write(tmp_path, images, labels)
    with pytest.raises(UsageError, match=words):
        idx.load(tmp_path, "train", "mnist")


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_files_load_or_are_refused(tmp_path, damaged, pack, data):
    images, labels = pack(idx_bytes(IMAGES)), pack(idx_bytes(LABELS))
    if data.draw(st.booleans()):
        images = data.draw(damaged(images))
    else:
        labels = data.draw(damaged(labels))
    write(tmp_path, images, labels, ".gz" if pack is gzip.compress else "")
    with contextlib.suppress(UsageError):
        assert isinstance(idx.load(tmp_path, "train", "mnist"), Dataset)
    with contextlib.suppress(UsageError):
        assert idx.count(tmp_path, "train") >= 0
