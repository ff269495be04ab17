"""Agreement class by class, against scikit-learn."""

from __future__ import annotations

import pytest
import torch
from sklearn.dummy import DummyClassifier
from sklearn.metrics import balanced_accuracy_score, recall_score

from leakmeter.evaluation.by_class import by_class


def test_against_scikit_learn() -> None:
    draws = torch.Generator().manual_seed(0)
    copy, victim, y = (torch.randint(0, 5, (300,), generator=draws) for _ in range(3))
    found = by_class(copy, victim, y)
    assert found.balanced == pytest.approx(balanced_accuracy_score(victim, copy))
    recalls = recall_score(victim, copy, average=None)
    assert found.worst == pytest.approx(recalls.min())
    assert found.worst_class == recalls.argmin()
    assert found.worst_n == int((victim == found.worst_class).sum())
    x = torch.zeros(300, 1)
    assert found.constant == DummyClassifier(strategy="most_frequent").fit(x, victim).score(x, victim)
    assert found.majority == DummyClassifier(strategy="most_frequent").fit(x, y).score(x, victim)
    assert found.unnamed == 0


def test_a_copy_that_never_names_the_minority_is_no_better_than_a_constant() -> None:
    victim = torch.tensor([0] * 99 + [1])
    found = by_class(torch.zeros(100, dtype=torch.long), victim, None)
    assert (found.constant, found.balanced, found.worst, found.worst_class, found.unnamed) == (0.99, 0.5, 0.0, 1, 1)
    assert found.majority is None


def test_classes_that_only_the_copy_or_the_labels_name_do_not_count() -> None:
    found = by_class(torch.tensor([7, 1, 1]), torch.tensor([1, 1, 1]), torch.tensor([9, 9, 9]))
    assert (found.balanced, found.constant, found.majority) == (pytest.approx(2 / 3), 1.0, 0.0)
