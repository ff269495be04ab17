from __future__ import annotations

import contextlib
import io

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from leakmeter.data import folder
from leakmeter.data.dataset import Dataset
from leakmeter.errors import UsageError

RNG = np.random.default_rng(4)
GREY = RNG.integers(0, 256, (4, 6), dtype=np.uint8)
RGB = RNG.integers(0, 256, (4, 6, 3), dtype=np.uint8)


def encode(pixels: np.ndarray, kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def put(path, pixels):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode(pixels))


def test_a_folder_per_class_in_the_order_of_names(tmp_path):
    for i in range(5):
        put(tmp_path / "dog" / f"{i}.png", RGB)
        put(tmp_path / "cat" / f"{i}.png", 255 - RGB)
    parts = [folder.load(tmp_path, split) for split in ("train", "test")]
    assert sum(map(len, parts)) == 10
    assert parts[0].classes == 2
    for x, y in (row for part in parts for row in zip(part.x, part.y, strict=True)):
        expected = RGB if y == 1 else 255 - RGB
        assert np.allclose(x.numpy(), expected.transpose(2, 0, 1) / 255)


def test_train_and_test_folders_are_the_splits_and_share_their_classes(tmp_path):
    put(tmp_path / "train" / "cat" / "1.png", GREY)
    put(tmp_path / "train" / "dog" / "1.png", GREY)
    put(tmp_path / "test" / "dog" / "1.png", GREY)
    test = folder.load(tmp_path, "test")
    assert test.y.tolist() == [1]
    assert test.classes == 2
    assert folder.load(tmp_path, "train").y.tolist() == [0, 1]


def test_loose_images_are_a_pool_and_grey_beside_colour_becomes_colour(tmp_path):
    put(tmp_path / "a.png", GREY)
    put(tmp_path / "b.png", RGB)
    (tmp_path / ".hidden").touch()
    pool = folder.load(tmp_path, "train")
    assert pool.y is None
    assert pool.input_shape == (3, 4, 6)
    assert np.allclose(pool.x[0].numpy(), np.broadcast_to(GREY / 255, (3, 4, 6)))


def test_grey_images_stay_grey(tmp_path):
    put(tmp_path / "a.png", GREY)
    assert folder.load(tmp_path, "train").input_shape == (1, 4, 6)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "expected images .* got none"),
        ({"a.png": GREY, "b.png": GREY[:2]}, "one size in .*, got 2×6 and 4×6"),
        ({"a.png": np.dstack([RGB, GREY])}, "a.png, got mode RGBA"),
        ({"a.png": GREY.astype(np.uint16)}, "a.png, got mode I;16"),
        ({"cat/a.png": GREY, "b.png": GREY}, "the file b.png beside them"),
        ({"cat/deep/a.png": GREY}, "got .*deep"),
        ({"cat/notes.txt": GREY}, "got .*notes.txt"),
    ],
)
def test_a_wrong_folder_is_refused(tmp_path, files, words):
    for name, pixels in files.items():
        put(tmp_path / name, pixels)
    with pytest.raises(UsageError, match=words):
        folder.load(tmp_path, "train")


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "BMP", "PPM"])
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_images_load_or_are_refused(tmp_path, damaged, kind, data):
    (tmp_path / "a.png").write_bytes(data.draw(damaged(encode(RGB, kind))))
    with contextlib.suppress(UsageError):
        assert isinstance(folder.load(tmp_path, "train"), Dataset)
