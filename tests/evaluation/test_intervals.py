"""Intervals against statsmodels."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from leakmeter.errors import UsageError
from leakmeter.evaluation.intervals import exact

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


@pytest.mark.parametrize(("k", "n"), [(-1, 5), (6, 5), (0, 0)])
def test_impossible_counts_are_refused(k: int, n: int) -> None:
    with pytest.raises(UsageError, match=f"got k={k} and n={n}"):
        exact(k, n)
