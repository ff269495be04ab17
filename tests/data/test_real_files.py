"""On the published files, where LEAKMETER_DATA says they are."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from leakmeter.data import catalogue
from leakmeter.data.fetch import REMOTES

DATA = Path(os.environ.get("LEAKMETER_DATA", ""))

pytestmark = pytest.mark.skipif(not DATA.name, reason="needs the published files: set LEAKMETER_DATA to their folder")


@pytest.mark.parametrize(
    ("name", "mean"), [("mnist", 0.1307), ("fashion-mnist", 0.2860), ("cifar10", 0.4734), ("svhn", 0.4524)]
)
def test_training_images_have_the_mean_they_are_known_for(name, mean):
    row = next(row for row in catalogue.listing(DATA) if (row.name, row.split) == (name, "train"))
    if not row.found:
        pytest.skip(f"{name} is not in LEAKMETER_DATA")
    dataset = catalogue.load(name, "train", DATA)
    assert len(dataset) == row.found
    assert bool(dataset.partial) == (row.found < row.published)
    assert dataset.x.mean().item() == pytest.approx(mean, abs=0.0005 if not dataset.partial else 0.01)
    assert dataset.y.unique().tolist() == list(range(10))


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_our_checksums_are_those_of_the_published_files(name):
    folder = DATA / name
    if not folder.is_dir():
        pytest.skip(f"{name} is not in LEAKMETER_DATA")
    for file, checksum in REMOTES[name].files.items():
        assert "sha256:" + hashlib.sha256((folder / file).read_bytes()).hexdigest() == checksum
