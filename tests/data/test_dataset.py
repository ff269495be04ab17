from __future__ import annotations

import pytest
import torch

from leakmeter.data.dataset import Dataset
from leakmeter.errors import UsageError
from leakmeter.seeds import stream


def numbered(n: int = 20, classes: int = 4) -> Dataset:
    """Row i is the feature i with label i % classes."""
    return Dataset("numbered", torch.arange(n).float().reshape(n, 1), torch.arange(n) % classes, classes)


def test_take_draws_different_rows_with_their_labels_and_repeats_with_the_seed():
    one, again = (numbered().take(7, stream(3, "take")) for _ in range(2))
    rows = one.x[:, 0].long()
    assert len(set(rows.tolist())) == 7
    assert torch.equal(one.y, rows % 4)
    assert torch.equal(one.x, again.x)


def test_split_parts_the_rows():
    a, b = numbered().split(5, stream(0, "split"))
    assert len(a) == 5
    assert sorted(torch.cat([a.x, b.x])[:, 0].tolist()) == list(range(20))


def test_holdout_is_disjoint_whole_and_fixed():
    train, test = numbered().holdout("train"), numbered().holdout("test")
    assert len(test) == 4
    assert sorted(torch.cat([train.x, test.x])[:, 0].tolist()) == list(range(20))
    assert torch.equal(test.x, numbered().holdout("test").x)


def test_a_pool_without_labels_is_all_for_training():
    pool = Dataset("pool", torch.rand(6, 1, 2, 2), None, None)
    assert pool.holdout("train") is pool
    with pytest.raises(UsageError, match="no test part"):
        pool.holdout("test")
    with pytest.raises(UsageError, match="has no labels"):
        pool.labelled()
    with pytest.raises(UsageError, match="has no labels"):
        pool.skew(2)


def test_skew_keeps_the_first_classes_only():
    skewed = numbered().skew(2)
    assert set(skewed.y.tolist()) == {0, 1}
    assert len(skewed) == 10
    assert skewed.classes == 4


@pytest.mark.parametrize("first", [0, -1])
def test_skew_to_nothing_is_refused(first: int):
    with pytest.raises(UsageError, match=f"got {first}"):
        numbered().skew(first)


@pytest.mark.parametrize("n", [0, 21])
def test_taking_more_than_there_is_is_refused(n: int):
    with pytest.raises(UsageError, match="between 1 and 20"):
        numbered().take(n, stream(0))
    with pytest.raises(UsageError, match="between 1 and 19"):
        numbered().split(n, stream(0))


@pytest.mark.parametrize(
    ("x", "y", "classes", "words"),
    [
        (torch.zeros(3, 2, dtype=torch.float64), None, None, "float32"),
        (torch.zeros(3), None, None, r"got torch.float32 \[3\]"),
        (torch.zeros(0, 2), None, None, "none of them empty"),
        (torch.tensor([[0.0], [float("nan")]]), None, None, "finite"),
        (torch.tensor([[0.0], [float("inf")]]), None, None, "finite"),
        (torch.full((1, 1, 2, 2), 1.5), None, None, r"\[0, 1\]"),
        (torch.full((1, 1, 2, 2), -0.1), None, None, r"\[0, 1\]"),
        (torch.zeros(3, 2), torch.tensor([0, 1]), 2, "3 int64 labels"),
        (torch.zeros(3, 2), torch.tensor([0, 1, 2]), 2, "labels from 0 to 1"),
        (torch.zeros(3, 2), torch.tensor([0, 1, -1]), 2, "labels from 0 to 1"),
        (torch.zeros(3, 2), torch.tensor([0, 1, 1]), None, "number of classes"),
    ],
)
def test_what_is_not_a_dataset_is_refused(x, y, classes, words):
    with pytest.raises(UsageError, match=words):
        Dataset("wrong", x, y, classes)
