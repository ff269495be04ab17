from __future__ import annotations

import struct

import numpy as np
import pytest
import torch

from leakmeter.data import catalogue, places
from leakmeter.errors import UsageError


def put_mnist(folder, n: int = 3, value: int = 0) -> None:
    folder.mkdir(parents=True)
    for prefix in ("train", "t10k"):
        header = struct.pack(">BBBBIII", 0, 0, 8, 3, n, 2, 2)
        (folder / f"{prefix}-images-idx3-ubyte").write_bytes(header + bytes([value]) * 4 * n)
        (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(struct.pack(">BBBBI", 0, 0, 8, 1, n) + bytes(n))


def test_digits_are_embedded_and_their_parts_disjoint():
    train, test = catalogue.load("digits", "train"), catalogue.load("digits", "test")
    assert (len(train), len(test)) == (1438, 359)
    assert train.input_shape == (1, 8, 8)
    assert train.x.max() == 1
    assert train.classes == 10
    together = torch.cat([train.x, test.x]).flatten(1)
    assert len(together.unique(dim=0)) == 1797
    assert test.y.bincount(minlength=10).min() > 0


def test_the_search_goes_from_the_given_folder_to_debian(tmp_path, monkeypatch):
    given, variable = tmp_path / "given", tmp_path / "variable"
    monkeypatch.setenv("LEAKMETER_DATA", str(variable))
    where = [places.DEBIAN, places.cache(), variable, given]
    given.mkdir()
    for value, root in enumerate(where, start=1):
        put_mnist(root / "fashion-mnist", value=value)
        dataset = catalogue.load("fashion-mnist", "test", given)
        assert round(dataset.x[0, 0, 0, 0].item() * 255) == value
        row = next(row for row in catalogue.listing(given) if (row.name, row.split) == ("fashion-mnist", "test"))
        assert row.where == str(root / "fashion-mnist")


def test_a_partial_set_says_so(tmp_path):
    put_mnist(tmp_path / "mnist")
    assert catalogue.load("mnist", "train", tmp_path).partial == "3 of 60,000 images"
    row = next(row for row in catalogue.listing(tmp_path) if row.name == "mnist")
    assert (row.found, row.published) == (3, 60_000)
    assert "partial: 3 of 60,000 images; run: leakmeter data fetch mnist" in row.note


def test_an_unlabelled_pool_stands_in_for_the_training_part_only(tmp_path):
    (tmp_path / "cifar100").mkdir()
    np.savez(tmp_path / "cifar100" / "pool.npz", images=np.zeros((4, 32, 32, 3), np.uint8))
    pool = catalogue.load("cifar100", "train", tmp_path)
    assert pool.name == "cifar100"
    assert pool.y is None
    assert pool.partial == "4 of 50,000 images, no labels"
    with pytest.raises(UsageError, match=r"test files of cifar100 .* run: leakmeter data fetch cifar100"):
        catalogue.load("cifar100", "test", tmp_path)
    train, test = (row for row in catalogue.listing(tmp_path) if row.name == "cifar100")
    assert train.found == 4
    assert "no labels" in train.note
    assert (test.found, test.where) == (0, "")


def test_the_listing_shows_a_damaged_file_and_goes_on(tmp_path):
    put_mnist(tmp_path / "mnist")
    (tmp_path / "mnist" / "train-images-idx3-ubyte").write_bytes(b"no")
    rows = {(row.name, row.split): row for row in catalogue.listing(tmp_path)}
    assert "expected an IDX file" in rows["mnist", "train"].note
    assert rows["mnist", "test"].found == 3
    assert len(rows) == 2 * len(catalogue.NAMES)
    assert "apt install dataset-fashion-mnist" in rows["fashion-mnist", "train"].note
    assert rows["digits", "train"].note == ""


def test_the_sizes_of_the_digits_in_the_listing_are_true():
    for row in catalogue.listing()[:2]:
        assert row.found == len(catalogue.load(row.name, row.split))


def test_paths_load(tmp_path):
    np.savez(tmp_path / "own.npz", x=np.zeros((5, 2)), y=np.arange(5))
    assert len(catalogue.load(str(tmp_path / "own.npz"), "train")) == 4
    (tmp_path / "images").mkdir()
    with pytest.raises(UsageError, match=r"expected images .* got none"):
        catalogue.load(str(tmp_path / "images"), "train")


@pytest.mark.parametrize(
    ("name", "split", "data_dir", "words"),
    [
        ("minst", "train", None, "unknown dataset 'minst'; did you mean 'mnist'"),
        (
            "mnist",
            "train",
            None,
            "expected the train files of mnist in one of .*got none; run: leakmeter data fetch mnist",
        ),
        ("mnist", "valid", None, "split train or test, got 'valid'"),
        ("mnist", "train", "nowhere", "expected a data folder, got nowhere"),
    ],
)
def test_what_cannot_be_found_is_said(name, split, data_dir, words):
    with pytest.raises(UsageError, match=words):
        catalogue.load(name, split, data_dir)
