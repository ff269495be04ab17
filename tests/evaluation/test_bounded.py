"""Gaffke's bound against Clopper and Pearson, closed forms and random weights."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from leakmeter.errors import UsageError
from leakmeter.evaluation.bounded import _below, mean_bounds

RATES = st.lists(st.floats(0, 1), min_size=1, max_size=12)


@pytest.mark.parametrize("n", [1, 2, 3, 10, 60])
@pytest.mark.parametrize("tail", [0.025, 0.001])
def test_of_zeros_and_ones_it_is_clopper_and_pearson(n: int, tail: float) -> None:
    for k in {0, 1, n // 2, n}:
        low, high = mean_bounds([1.0] * k + [0.0] * (n - k), tail)
        assert low == pytest.approx(0 if k == 0 else beta.ppf(tail, k, n - k + 1), abs=1e-9)
        assert high == pytest.approx(1 if k == n else beta.ppf(1 - tail, k + 1, n - k), abs=1e-9)


@pytest.mark.parametrize("n", [1, 3, 10])
def test_equal_values_leave_what_a_failing_seed_could_not_have_shown(n: int) -> None:
    low, high = mean_bounds([0.9] * n, 0.025)
    assert low == pytest.approx(0.9 * 0.025 ** (1 / n))
    assert 1 - high == pytest.approx(0.1 * 0.025 ** (1 / n))


@pytest.mark.parametrize("values", [[0.1, 0.95, 0.94], [0.2, 0.2, 0.7, 0.7, 0.7], [0.0, 0.3, 1.0, 1.0]])
def test_against_weights_drawn_from_the_simplex(values: list[float]) -> None:
    weights = np.random.default_rng(0).dirichlet(np.ones(len(values) + 1), 200_000)
    low, high = mean_bounds(values, 0.025)
    assert (weights @ [*values, 0.0] < low).mean() == pytest.approx(0.025, abs=0.002)
    assert (weights @ [*values, 1.0] > high).mean() == pytest.approx(0.025, abs=0.002)


@given(RATES, st.floats(0, 1))
def test_more_is_never_bounded_lower(values: list[float], more: float) -> None:
    low, high = mean_bounds(values, 0.025)
    assert 0 <= low <= sum(values) / len(values) + 1e-9
    assert sum(values) / len(values) - 1e-9 <= high <= 1
    raised = [max(value, more) for value in values]
    assert mean_bounds(raised, 0.025)[0] >= low - 1e-9
    assert mean_bounds(raised, 0.025)[1] >= high - 1e-9


@pytest.mark.parametrize("values", [[], [1.2], [-0.1, 0.5]])
def test_what_is_no_rate_is_refused(values: list[float]) -> None:
    with pytest.raises(UsageError, match="between 0 and 1"):
        mean_bounds(values, 0.025)


def test_a_point_that_lies_exactly_there_counts_as_not_below() -> None:
    """The share of weights whose mean is below a value does not jump where that value is one of the points."""
    for points in ([0.2, 0.5, 1.0], [0.5, 0.5, 0.7, 1.0], [0.0, 0.3, 0.3, 0.9, 1.0]):
        for at in set(points) - {min(points), max(points)}:
            near = [_below(points, at + step) for step in (-1e-9, 1e-9)]
            assert _below(points, at) == pytest.approx(sum(near) / 2, abs=1e-6)
    assert _below([0.2, 0.5, 1.0], 0.5) == pytest.approx(0.3 / 0.8)
    assert mean_bounds([0.0, 1.0], 0.025) == pytest.approx((0.0126, 0.9874), abs=1e-4)
