from __future__ import annotations

import contextlib
import io

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.io import savemat

from leakmeter.data import svhn
from leakmeter.data.dataset import Dataset
from leakmeter.errors import UsageError

X = np.random.default_rng(2).integers(0, 256, (32, 32, 3, 2), dtype=np.uint8)
Y = np.array([[10], [3]], np.uint8)


def mat(compressed: bool = True, **content: np.ndarray) -> bytes:
    file = io.BytesIO()
    savemat(file, content, do_compression=compressed)
    return file.getvalue()


def test_reads_what_was_written_and_ten_means_zero(tmp_path):
    (tmp_path / "test_32x32.mat").write_bytes(mat(X=X, y=Y))
    dataset = svhn.load(tmp_path, "test")
    assert dataset.input_shape == (3, 32, 32)
    assert dataset.x[1, 2, 5, 7].item() == pytest.approx(X[5, 7, 2, 1] / 255)
    assert dataset.y.tolist() == [0, 3]
    assert svhn.count(tmp_path, "test") == 2
    assert svhn.load(tmp_path, "train") is None
    assert svhn.count(tmp_path, "train") == 0


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (mat(X=X, y=Y)[:-500], "train_32x32.mat, got one that cannot be read"),
        (b"", "cannot be read"),
        (mat(X=X[:, :, :1], y=Y), r"X as bytes \[32, 32, 3, N\] in .*train_32x32.mat, got uint8 \[32, 32, 1, 2\]"),
        (mat(X=X.astype(float), y=Y), "got float64"),
        (mat(y=Y), "X as bytes"),
        (mat(X=X), r"y as labels 1 to 10, \[2, 1\]"),
        (mat(X=X, y=Y - 3), "y as labels 1 to 10"),
        (mat(X=X, y=Y + 1), "y as labels 1 to 10"),
        (mat(X=X, y=Y[:1]), "y as labels 1 to 10"),
    ],
)
def test_a_wrong_file_is_named_with_what_was_expected(tmp_path, raw, words):
    (tmp_path / "train_32x32.mat").write_bytes(raw)
    with pytest.raises(UsageError, match=words):
        svhn.load(tmp_path, "train")


@pytest.mark.parametrize("compressed", [True, False])
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_files_load_or_are_refused(tmp_path, damaged, compressed, data):
    whole = mat(compressed, X=X, y=Y)
    (tmp_path / "train_32x32.mat").write_bytes(data.draw(damaged(whole)))
    with contextlib.suppress(UsageError):
        assert isinstance(svhn.load(tmp_path, "train"), Dataset)
    with contextlib.suppress(UsageError):
        assert svhn.count(tmp_path, "train") >= 0
