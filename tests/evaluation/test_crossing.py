"""Crossings of curves: bracketed by measured points, and against scikit-learn's isotonic regression."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.isotonic import isotonic_regression

from leakmeter.evaluation.crossing import crossing, crossing_interval, rising


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_rising_is_isotonic_regression(values: list[float]) -> None:
    found = rising(list(enumerate(values, 1)))
    assert [queries for queries, _ in found] == list(range(1, len(values) + 1))
    assert [value for _, value in found] == pytest.approx(list(isotonic_regression(values)), abs=1e-9)


def test_a_level_is_crossed_between_two_points() -> None:
    curve = [(100, 0.5), (200, 0.8), (400, 0.9)]
    assert crossing(curve, 0.85) == (201, 400)
    assert crossing(curve, 0.8) == (101, 200)
    assert crossing(curve, 0.3) == (1, 100)
    assert crossing(curve, 0.95) is None


def test_one_lucky_point_is_no_crossing() -> None:
    assert crossing([(1, 0.1), (2, 0.95), (4, 0.2), (8, 0.3), (16, 0.9)], 0.9) == (9, 16)


def test_an_interval_ends_where_the_band_can_no_longer_tell() -> None:
    band = [(10, 0.1, 0.4), (20, 0.3, 0.8), (40, 0.6, 0.95), (80, 0.9, 1.0)]
    assert crossing_interval(band, 0.5) == (11, 40)
    assert crossing_interval(band, 0.05) == (1, 10)
    assert crossing_interval(band, 0.97) == (41, None)
    assert crossing_interval(band[:2], 0.9) == (21, None)
    assert crossing_interval(band, 0.6) == (11, 40)  # a bound at the level reaches it
    assert crossing_interval(band, 0.8) == (11, 80)


def test_what_lies_behind_the_first_doubt_does_not_count() -> None:
    """Only one point can mislead an end, so that looking at many does not make errors likelier."""
    assert crossing_interval([(1, 0.6, 0.9), (2, 0.1, 0.4), (4, 0.6, 0.9)], 0.5) == (1, 4)
