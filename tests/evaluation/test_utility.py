"""Utility against numbers worked out by hand."""

import math

import pytest
import torch

from leakmeter.evaluation.score import Reference
from leakmeter.evaluation.utility import utility
from leakmeter.oracle.answer import Answer
from leakmeter.oracle.view import View

BEFORE = torch.tensor([[0.7, 0.3], [0.4, 0.6], [0.9, 0.1], [0.2, 0.8]])
AFTER = torch.tensor([[0.5, 0.5], [0.6, 0.4], [1.0, 0.0], [0.2, 0.8]])
Y = torch.tensor([0, 1, 0, 0])


def answer(kind: str, values: torch.Tensor) -> Answer:
    return Answer(View(kind), 2, {kind: values})  # type: ignore[arg-type]


def truth(kind: str = "probs", values: torch.Tensor = BEFORE, y: torch.Tensor | None = Y) -> Reference:
    return Reference(torch.zeros(4, 1), y, answer(kind, values))


def test_by_hand() -> None:
    found = utility(truth(), answer("probs", AFTER))
    assert found.n == 4
    assert found.accuracy_loss == 0.25  # three right before (rows 0, 1, 2), rows 0 and 2 after
    assert found.agreement == 0.75
    assert found.agreement_interval is not None
    assert 0.75 in found.agreement_interval
    assert found.distortion == pytest.approx((0.2 + 0.2 + 0.1 + 0.0) / 4)
    rows = (
        0.5 * math.log(0.5 / 0.7) + 0.5 * math.log(0.5 / 0.3),
        0.6 * math.log(0.6 / 0.4) + 0.4 * math.log(0.4 / 0.6),
        math.log(1 / 0.9),
        0.0,
    )
    assert found.kl == pytest.approx(sum(rows) / 4)


def test_logits_are_compared_as_probabilities() -> None:
    found = utility(truth("logits", BEFORE.log() + 3), answer("probs", AFTER))
    same = utility(truth(), answer("probs", AFTER))
    assert (found.distortion, found.kl) == pytest.approx((same.distortion, same.kl), rel=1e-5)


def test_labels_count_as_certainty() -> None:
    found = utility(truth(), answer("labels", BEFORE.argmax(1)))
    assert (found.accuracy_loss, found.agreement) == (0.0, 1.0)
    assert found.distortion == pytest.approx((0.3 + 0.4 + 0.1 + 0.2) / 4)


def test_what_cannot_be_measured_is_none() -> None:
    assert utility(truth(y=None), answer("probs", AFTER)).accuracy_loss is None
    found = utility(truth("labels", BEFORE.argmax(1)), answer("probs", AFTER))
    assert (found.distortion, found.kl, found.accuracy_loss) == (None, None, 0.25)


def test_no_defense_costs_nothing() -> None:
    found = utility(truth(), truth().answer)
    assert (found.accuracy_loss, found.agreement) == (0.0, 1.0)
    assert (found.distortion, found.kl) == pytest.approx((0.0, 0.0), abs=1e-12)
