"""Intervals against statsmodels and scipy."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from leakmeter.errors import UsageError
from leakmeter.evaluation.intervals import exact, mean_interval

COUNTS = st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(counts=COUNTS, confidence=st.sampled_from([0.8, 0.95, 0.999]))
def test_rates_against_statsmodels(counts: tuple[int, int], confidence: float) -> None:
    k, n = counts
    interval = exact(k, n, confidence)
    low, high = proportion_confint(k, n, alpha=1 - confidence, method="beta")
    low, high = (0.0 if k == 0 else float(low)), (1.0 if k == n else float(high))
    assert math.isclose(interval.low, low, abs_tol=1e-9)
    assert math.isclose(interval.high, high, abs_tol=1e-9)
    assert (interval.n, interval.method, interval.confidence) == (n, "clopper-pearson", confidence)
    assert 0 <= interval.low <= k / n <= interval.high <= 1
    assert k / n in interval


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=20))
def test_means_against_scipy(values: list[float]) -> None:
    interval = mean_interval(values)
    mean, error = sum(values) / len(values), stats.sem(values)
    if error < 1e-9:
        assert math.isclose(interval.low, interval.high, abs_tol=1e-6)
        return
    low, high = stats.t.interval(0.95, len(values) - 1, loc=mean, scale=error)
    assert math.isclose(interval.low, low, rel_tol=1e-9, abs_tol=1e-9)
    assert math.isclose(interval.high, high, rel_tol=1e-9, abs_tol=1e-9)
    assert interval.n == len(values)


def test_one_seed_gives_no_interval_and_says_so() -> None:
    interval = mean_interval([0.7])
    assert (interval.low, interval.high, interval.n, interval.method) == (0.7, 0.7, 1, "single seed")
    with pytest.raises(UsageError, match="at least one value"):
        mean_interval([])


@pytest.mark.parametrize(("k", "n"), [(-1, 5), (6, 5), (0, 0)])
def test_impossible_counts_are_refused(k: int, n: int) -> None:
    with pytest.raises(UsageError, match=f"got k={k} and n={n}"):
        exact(k, n)
