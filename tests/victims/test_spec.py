"""Queries are admitted inside the box and refused outside it, each refusal in one sentence."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from leakmeter.box import Box
from leakmeter.errors import UsageError
from leakmeter.victims.spec import VictimSpec


def spec(low: object = 0.0, high: object = 1.0, dtype: torch.dtype = torch.float32) -> VictimSpec:
    ends = [None if end is None else torch.as_tensor(end, dtype=dtype) for end in (low, high)]
    return VictimSpec("v", (3,), Box(*ends), classes=2, outputs="logits", dtype=dtype)


@pytest.mark.parametrize(
    ("x", "sentence"),
    [
        (torch.rand(3), r"expected queries of shape \(n, 3\), got \(3\); add the batch dimension with x\[None\]"),
        (torch.rand(2, 4), r"expected queries of shape \(n, 3\), got \(2, 4\)"),
        (torch.rand(2, 3, 1), r"expected queries of shape \(n, 3\), got \(2, 3, 1\)"),
        (torch.zeros(0, 3), "expected at least one query, got none"),
        (torch.zeros(2, 3, dtype=torch.int64), r"expected floating-point queries, got torch.int64; convert them"),
        (torch.zeros(2, 3, dtype=torch.complex64), "expected floating-point queries, got torch.complex64"),
        (np.zeros((2, 3), dtype=bool), "expected floating-point queries, got bool"),
        (np.array([["a"] * 3]), "expected floating-point queries, got <U1"),
        (np.array([[None] * 3]), "expected floating-point queries, got object"),
        ([[0.0, 0.0, 0.0]], "expected queries as a tensor or an array, got list"),
        (torch.tensor([[0, 0, torch.nan], [0, 0, 0]]), "got NaN or infinity in 1 of 2 inputs"),
        (torch.tensor([[0, 0, torch.inf]]), "got NaN or infinity in 1 of 1 inputs"),
        (torch.tensor([[0, 0, 1.5], [0, 0, 0.0]]), r"at most 1, got 1.5 in 1 of 2 inputs; clamp them to the box"),
        (torch.tensor([[0, -0.25, 0.5]]), "at least 0, got -0.25 in 1 of 1 inputs"),
        (np.array([[0, 0, 1e300]]), "NaN or infinity"),
    ],
)
def test_refusals(x: object, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        spec().admit(x)  # type: ignore[arg-type]


def test_a_box_that_differs_by_feature() -> None:
    box = spec(low=[0.0, -5.0, 10.0], high=[1.0, 5.0, 20.0])
    inside = torch.tensor([[0.0, -5.0, 20.0], [1.0, 5.0, 10.0]])
    assert torch.equal(box.admit(inside), inside)
    with pytest.raises(UsageError, match="at least -5 to 10 by feature, got 9 in 1 of 2 inputs"):
        box.admit(torch.tensor([[0.5, 0.0, 9.0], [0.5, 0.0, 11.0]]))
    with pytest.raises(UsageError, match=r"at most 1 to 20 by feature, got 1\.5 in 2 of 2 inputs"):
        box.admit(torch.tensor([[1.5, 0.0, 11.0], [2.0, 0.0, 11.0]]))
    sample = box.sample(500, torch.Generator().manual_seed(0))
    box.admit(sample)
    assert (sample.amin(0) < torch.tensor([0.1, -4.0, 11.0])).all()
    assert (sample.amax(0) > torch.tensor([0.9, 4.0, 19.0])).all()
    assert torch.equal(box.width, torch.tensor([1.0, 10.0, 10.0]))


@pytest.mark.parametrize(("low", "high"), [(None, None), (0.0, None), (None, 0.0)])
def test_an_open_box_bounds_only_its_closed_side(low, high) -> None:
    box = spec(low, high)
    box.admit(box.sample(100, torch.Generator().manual_seed(0)))
    far = torch.full((1, 3), 1e6)
    assert box.width is None
    if high is None:
        box.admit(far)
    if low is None:
        box.admit(-far)
    if low is not None:
        with pytest.raises(UsageError, match="at least 0"):
            box.admit(-far)


FLOATS = st.floats(-2, 3, width=32)


@given(arrays.arrays(np.float32, st.tuples(st.integers(1, 4), st.just(3)), elements=FLOATS))
def test_exactly_what_lies_in_the_box_is_admitted_and_clamp_mends_the_rest(x: np.ndarray) -> None:
    box = spec(low=[0.0, -1.0, 0.5], high=[1.0, 2.0, 0.75])
    inside = ((x >= [0.0, -1.0, 0.5]) & (x <= [1.0, 2.0, 0.75])).all()
    if inside:
        assert np.array_equal(box.admit(x), x)
    else:
        with pytest.raises(UsageError, match="clamp them to the box"):
            box.admit(x)
    mended = box.admit(box.clamp(torch.from_numpy(x)))
    assert np.array_equal(mended, np.clip(x, [0.0, -1.0, 0.5], [1.0, 2.0, 0.75]).astype(np.float32))


def test_arrays_of_any_layout_are_taken() -> None:
    x = np.random.default_rng(0).random((4, 3))
    frozen = x.copy()
    frozen.flags.writeable = False
    for array in (x, np.asfortranarray(x), x[::-1], x.astype(">f8"), frozen, x.astype(np.float16)):
        assert torch.equal(spec().admit(array), torch.from_numpy(np.array(array, dtype=np.float64)).float())


@pytest.mark.parametrize("edge", [0.41, -0.41, 0.1, 1 / 3])
def test_an_edge_of_more_digits_than_the_inputs_have_admits_the_input_that_is_meant_by_it(edge: float) -> None:
    x = torch.full((1, 3), edge)  # in single precision beside the edge, on either side
    for box in (spec(edge, 2.0, torch.float64), spec(-2.0, edge, torch.float64)):
        for asked in (x, x.numpy(), x.half() if edge == -0.41 else x):
            admitted = box.admit(asked)
            assert admitted.dtype == torch.float64
            assert bool((admitted >= box.low).all() and (admitted <= box.high).all())
        with pytest.raises(UsageError, match="inputs; clamp them to the box"):
            box.admit(x.double() + (1e-3 if edge == float(box.high) else -1e-3))
    with pytest.raises(UsageError, match="at least"):
        spec(edge, 2.0, torch.float64).admit(torch.nextafter(x, torch.full_like(x, -9.0)))
