"""One box for everybody: what it maps lies inside it, and the way back is the way back."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from leakmeter.box import Box
from leakmeter.data.dataset import Dataset
from leakmeter.errors import UsageError
from leakmeter.extraction.procedural import Procedural
from leakmeter.victims.spec import VictimSpec

EDGES = st.floats(-1e6, 1e6, width=32)


@example(0.0, 5.423644794468006e-30, [1.0])
@given(EDGES, EDGES, st.lists(st.floats(0, 1, width=32), min_size=1, max_size=9))
def test_unit_numbers_are_mapped_inside_and_back(low: float, high: float, numbers: list[float]) -> None:
    if not high - low > 1e-30:  # a share of less may be flushed to zero
        return
    box, unit = Box(torch.tensor(low), torch.tensor(high)), torch.tensor(numbers)
    x = box.from_unit(unit)
    assert ((x >= low) & (x <= high)).all()
    np.testing.assert_allclose(x, low + unit.double() * (high - low), atol=1e-6 * (abs(low) + abs(high)))
    step = 4 * math.ulp(max(abs(low), abs(high))) * 2**29 / (high - low)  # float32's rounding, in widths
    np.testing.assert_allclose(box.to_unit(x), unit, atol=1e-6 + step)


def test_a_box_by_feature_has_its_corners_where_it_says() -> None:
    box = Box(torch.tensor([-1.0, 0.1]), torch.tensor([3.0, 0.7]))
    assert torch.equal(box.from_unit(torch.tensor([[0.0, 0.0], [1.0, 1.0]])), torch.stack([box.low, box.high]))
    assert torch.equal(box.unit, torch.tensor([4.0, 0.7]) - torch.tensor([0.0, 0.1]))
    assert Box(None, box.high).unit == 1.0


@pytest.mark.parametrize(("low", "high"), [(None, None), (0.0, None), (None, 0.5)])
def test_where_a_side_is_open_unit_numbers_spread_about_zero(low: float | None, high: float | None) -> None:
    x = torch.zeros(1)
    box = Box.around(x, low, high)
    shown = box.from_unit(torch.linspace(0, 1, 5))
    assert shown.tolist() == np.clip([-2.0, -1.0, 0.0, 1.0, 2.0], low, high).tolist()


def test_drawn_pictures_are_the_same_for_every_attack_and_real_ones_stay_as_they_are() -> None:
    spec = VictimSpec("v", (1, 8, 8), Box(None, None), 2, "logits")
    drawn = Procedural().draw(20, spec, torch.Generator().manual_seed(0))
    assert drawn.min() >= -2
    assert drawn.min() < -0.5
    images = torch.rand(3, 1, 8, 8)
    assert torch.equal(Dataset("own", images, None, None).into(spec.box).x, images)


def test_only_as_much_as_was_allowed_is_forgiven() -> None:
    box, x = Box(torch.tensor(0.0), torch.tensor(4.0)), torch.tensor([[-3e-6, 1.0], [0.0, 4.0]])
    assert box.admit(x, 1e-6).tolist() == [[0.0, 1.0], [0.0, 4.0]]
    for slack in (0.0, 1e-7):
        with pytest.raises(UsageError, match=r"expected inputs of at least 0, got -3\.00000011e-06 in 1 of 2 inputs"):
            box.admit(x, slack)
