from __future__ import annotations

import contextlib
import pickle
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leakmeter.data import cifar
from leakmeter.data.cifar import CIFAR10, CIFAR100
from leakmeter.data.dataset import Dataset
from leakmeter.errors import UsageError

PIXELS = np.random.default_rng(1).integers(0, 256, (3, 3072), dtype=np.uint8)
LABELS = [7, 0, 9]


def binary(coarse: bool = False) -> bytes:
    head = b"\x05" if coarse else b""
    return b"".join(head + bytes([label]) + row.tobytes() for label, row in zip(LABELS, PIXELS, strict=True))


def python_2(key: bytes = b"labels", fortran: bool = False) -> bytes:
    """A batch as Python 2 wrote the published ones: protocol 2, byte strings, the old name of NumPy's module."""

    def short(text: bytes) -> bytes:
        return b"U" + bytes([len(text)]) + text

    pixels = PIXELS.tobytes("F" if fortran else "C")
    array = b"cnumpy.core.multiarray\n_reconstruct\nq\x01cnumpy\nndarray\nq\x02K\x00\x85" + short(b"b") + b"\x87Rq\x03"
    dtype = b"cnumpy\ndtype\nq\x04" + short(b"u1") + b"K\x00K\x01\x87Rq\x05"
    dtype += b"(K\x03" + short(b"|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    state = b"(K\x01K\x03M\x00\x0c\x86" + dtype + (b"\x88" if fortran else b"\x89")
    state += b"T" + struct.pack("<i", len(pixels)) + pixels + b"tb"
    labels = b"](" + b"".join(b"K" + bytes([label]) for label in LABELS) + b"e"
    items = short(b"batch_label") + short(b"training batch 1 of 5") + short(key) + labels
    return b"\x80\x02}q\x00(" + items + short(b"data") + array + state + b"u."


def python_3() -> bytes:
    return pickle.dumps({"labels": LABELS, "data": PIXELS, "filenames": ["a.png", "b.png", "c.png"]}, protocol=4)


def put(folder: Path, name: str, raw: bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw)
    return path


def check(dataset: Dataset | None) -> None:
    assert dataset is not None
    assert np.array_equal(dataset.x.mul(255).round().numpy().astype(np.uint8).reshape(3, 3072), PIXELS)
    assert dataset.y is not None
    assert dataset.y.tolist() == LABELS


@pytest.mark.filterwarnings("ignore:numpy.core")
@pytest.mark.parametrize("fortran", [False, True])
def test_the_hand_made_batch_is_what_pickle_reads(fortran):
    batch = pickle.loads(python_2(fortran=fortran), encoding="bytes")
    assert np.array_equal(batch[b"data"], PIXELS)
    assert batch[b"labels"] == LABELS


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("cifar-10-batches-bin/data_batch_1.bin", binary()),
        ("data_batch_3.bin", binary()),
        ("cifar-10-batches-py/data_batch_1", python_2()),
        ("cifar-10-batches-py/data_batch_1", python_2(fortran=True)),
        ("data_batch_2", python_3()),
    ],
)
def test_cifar10_in_every_form(tmp_path, name, raw):
    put(tmp_path, name, raw)
    check(cifar.load(tmp_path, "train", CIFAR10))
    assert cifar.count(tmp_path, "train", CIFAR10) == 3
    assert cifar.load(tmp_path, "test", CIFAR10) is None
    assert cifar.count(tmp_path, "test", CIFAR10) == 0


@pytest.mark.parametrize(
    ("name", "raw"),
    [("cifar-100-binary/test.bin", binary(coarse=True)), ("cifar-100-python/test", python_2(b"fine_labels"))],
)
def test_cifar100_takes_the_fine_label(tmp_path, name, raw):
    put(tmp_path, name, raw)
    check(cifar.load(tmp_path, "test", CIFAR100))


def test_batches_are_joined_in_their_order_from_the_fuller_form(tmp_path):
    put(tmp_path, "cifar-10-batches-bin/data_batch_1.bin", binary())
    put(tmp_path, "cifar-10-batches-py/data_batch_1", python_2())
    put(tmp_path, "cifar-10-batches-py/data_batch_2", python_3())
    assert cifar.load(tmp_path, "train", CIFAR10).y.tolist() == LABELS * 2


@pytest.mark.parametrize(
    ("name", "raw", "words"),
    [
        (
            "data_batch_1.bin",
            binary()[:-1],
            r"records of 3,073 bytes in .*data_batch_1.bin, got 9,218 .*2 records and 3,072",
        ),
        ("data_batch_1.bin", b"", "got 0 bytes"),
        ("data_batch_1.bin", b"\x0a" + bytes(3072), r"labels from 0 to 9 in .*data_batch_1.bin, got 10"),
        ("data_batch_1", python_2()[:-40], "data_batch_1, got a damaged pickle"),
        ("data_batch_1", b"not a pickle", "damaged pickle"),
        ("data_batch_1", pickle.dumps([1, 2]), "a dictionary in the CIFAR python batch .*, got list"),
        ("data_batch_1", pickle.dumps({"labels": LABELS}), "under 'data'"),
        ("data_batch_1", pickle.dumps({"labels": LABELS, "data": PIXELS[:, :9]}, 4), "under 'data'"),
        ("data_batch_1", pickle.dumps({"labels": LABELS, "data": PIXELS.astype(np.int64)}, 4), "under 'data'"),
        ("data_batch_1", pickle.dumps({"labels": LABELS[:2], "data": PIXELS}, 4), "got 3 and 2"),
        ("data_batch_1", pickle.dumps({"labels": [1, 2, -3], "data": PIXELS}, 4), "under 'labels'"),
        ("data_batch_1", pickle.dumps({"labels": [1, 2, 30], "data": PIXELS}, 4), "got 30"),
    ],
)
def test_a_wrong_batch_is_named_with_what_was_expected(tmp_path, name, raw, words):
    put(tmp_path, name, raw)
    with pytest.raises(UsageError, match=words):
        cifar.load(tmp_path, "train", CIFAR10)


class Trap:
    """A pickle that would create a file when loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_a_pickle_that_asks_for_code_is_refused_and_nothing_runs(tmp_path):
    trap = tmp_path / "sprung"
    raw = pickle.dumps({"labels": LABELS, "data": Trap(trap)}, protocol=4)
    pickle.loads(raw)
    assert trap.exists(), "the trap works on the ordinary reader"
    trap.unlink()
    put(tmp_path, "data_batch_1", raw)
    with pytest.raises(UsageError, match="do not trust this file"):
        cifar.load(tmp_path, "train", CIFAR10)
    assert not trap.exists()


@pytest.mark.parametrize(
    "raw",
    [
        b"\x80\x04K\x01r\xff\xff\xff\x7f0.",  # a memo entry far out, which the C reader makes room for
        b"\x80\x05\x96" + struct.pack("<Q", 1 << 32) + b".",  # a bytearray of 4 GB
        b"\x80\x04T\xff\xff\xff\x7f.",  # a string of 2 GB that is not there
    ],
)
def test_a_pickle_cannot_fill_the_memory(tmp_path, raw):
    put(tmp_path, "data_batch_1", raw)
    tracemalloc.start()
    try:
        with pytest.raises(UsageError):
            cifar.load(tmp_path, "train", CIFAR10)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("name", "whole"), [("data_batch_1.bin", binary()), ("data_batch_1", python_2()), ("data_batch_1", python_3())]
)
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_batches_load_or_are_refused(tmp_path, damaged, name, whole, data):
    put(tmp_path, name, data.draw(damaged(whole)))
    with contextlib.suppress(UsageError):
        assert isinstance(cifar.load(tmp_path, "train", CIFAR10), Dataset)
