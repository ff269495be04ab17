from __future__ import annotations

import contextlib
import io
import zipfile
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leakmeter.data import npz
from leakmeter.data.dataset import Dataset
from leakmeter.errors import UsageError

RNG = np.random.default_rng(3)
PIXELS = RNG.integers(0, 256, (10, 5, 4, 3), dtype=np.uint8)
LABELS = np.arange(10) % 3


def save(path, **arrays: Any):
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize(
    ("x", "pick"),
    [
        (PIXELS, lambda n, c, h, w: PIXELS[n, h, w, c] / 255),
        (PIXELS.transpose(0, 3, 1, 2), lambda n, c, h, w: PIXELS[n, h, w, c] / 255),
        (PIXELS / 255, lambda n, c, h, w: PIXELS[n, h, w, c] / 255),
        (PIXELS[..., 0], lambda n, c, h, w: PIXELS[n, h, w, 0] / 255),
        (PIXELS[..., :1], lambda n, c, h, w: PIXELS[n, h, w, 0] / 255),
    ],
)
def test_every_layout_becomes_channels_first(tmp_path, x, pick):
    dataset = npz.load(save(tmp_path / "a.npz", x_train=x, y_train=LABELS), "train")
    channels = x.shape[3 if x.shape[-1] in (1, 3) else 1] if x.ndim == 4 else 1
    assert dataset.x.shape == (10, channels, 5, 4)
    for n, c, h, w in [(0, 0, 0, 0), (7, channels - 1, 4, 2)]:
        assert dataset.x[n, c, h, w].item() == pytest.approx(pick(n, c, h, w))


def test_features_stay_features(tmp_path):
    x = RNG.normal(size=(10, 7)) * 100
    dataset = npz.load(save(tmp_path / "a.npz", x_test=x, y_test=LABELS[:, None]), "test")
    assert np.allclose(dataset.x.numpy(), x)
    assert dataset.y.tolist() == LABELS.tolist()


def test_one_set_is_parted_without_overlap(tmp_path):
    path = save(tmp_path / "a.npz", x=np.arange(10.0)[:, None], y=LABELS)
    train, test = npz.load(path, "train"), npz.load(path, "test")
    assert sorted(train.x[:, 0].tolist() + test.x[:, 0].tolist()) == list(range(10))
    assert train.name == "a"


def test_without_labels_it_is_a_pool(tmp_path):
    pool = npz.load(save(tmp_path / "pool.npz", images=PIXELS), "train")
    assert len(pool) == 10
    assert pool.y is None
    assert pool.classes is None


def test_classes_count_over_both_splits(tmp_path):
    path = save(tmp_path / "a.npz", x_train=PIXELS, y_train=LABELS, x_test=PIXELS[:2], y_test=LABELS[:2])
    assert npz.load(path, "test").classes == 3


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"data": PIXELS}, "array named x in .*a.npz, got data"),
        ({"x_train": PIXELS}, "array named x_test"),
        ({"x": PIXELS.astype(np.int64)}, "uint8 or float inputs .* got int64"),
        ({"x": np.zeros((9, 3, 5, 3))}, "both ends fit"),
        ({"x": np.zeros((9, 2, 5, 4))}, "neither fits"),
        ({"x": np.zeros(9)}, r"got \[9\]"),
        ({"x": PIXELS, "y": LABELS[:4]}, "10 rows of .*a.npz, got 4"),
        ({"x": PIXELS, "y": LABELS / 2}, "whole-number labels .* got float64"),
        ({"x": PIXELS, "y": LABELS - 1}, "labels from -1"),
        ({"x": PIXELS, "y": np.int64(3)}, "whole-number labels"),
        ({"x": PIXELS, "y": np.eye(10, dtype=int)}, "whole-number labels"),
        ({"x": PIXELS.astype(float)}, r"raw box \[0, 1\]"),
        ({"x": np.full((5, 2), 1e300)}, "finite"),
        ({"x": np.array([{}, {}], dtype=object)}, "plain arrays"),
    ],
)
def test_wrong_arrays_are_refused(tmp_path, arrays, words):
    with pytest.raises(UsageError, match=words):
        npz.load(save(tmp_path / "a.npz", **arrays), "test")


@pytest.mark.parametrize("content", [b"", b"text", None])
def test_what_is_no_npz_is_named(tmp_path, content):
    path = tmp_path / "a.npz"
    if content is None:
        with path.open("wb") as file:
            np.save(file, PIXELS)
    else:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=r"plain arrays in .*a.npz"):
        npz.load(path, "train")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"cannot read .*gone.npz: No such file"):
        npz.load(tmp_path / "gone.npz", "train")


def test_an_entry_that_is_no_array_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x", "text")
    with pytest.raises(UsageError, match=r"a\.npz"):
        npz.load(tmp_path / "a.npz", "train")


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_files_load_or_are_refused(tmp_path, damaged, write, data):
    file = io.BytesIO()
    write(file, x=PIXELS, y=LABELS)
    (tmp_path / "a.npz").write_bytes(data.draw(damaged(file.getvalue())))
    with contextlib.suppress(UsageError):
        assert isinstance(npz.load(tmp_path / "a.npz", "train"), Dataset)
