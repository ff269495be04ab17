import pytest

from leakmeter.errors import Inconclusive, UsageError
from leakmeter.evaluation.cheaper import cheaper, queries_to


def test_queries_lie_on_the_straight_line_over_log_queries() -> None:
    curve = [(10, 0.5), (1000, 0.9)]
    assert queries_to(0.7, curve) == pytest.approx(100)
    assert queries_to(0.9, curve) == pytest.approx(1000)
    assert queries_to(0.4, curve) == 10


def test_the_first_crossing_counts_when_a_curve_falls_again() -> None:
    assert queries_to(0.8, [(1, 0.2), (10, 0.8), (100, 0.5), (1000, 0.9)]) == pytest.approx(10)


def test_a_curve_shifted_by_a_hundred_is_a_hundred_times_cheaper() -> None:
    plain = [[(100, 0.3), (10_000, 0.7 + s)] for s in (0.0, 0.1)]
    explained = [[(1, 0.3), (100, 0.7 + s)] for s in (0.0, 0.1)]
    found = cheaper(plain, explained)
    assert found.level == pytest.approx(0.7)
    assert found.times == pytest.approx(100)
    assert (found.interval.low, found.interval.high) == pytest.approx((100, 100))
    assert not found.at_least
    assert "makes the copy 100× cheaper than showing probabilities" in found.line()


def test_seeds_that_differ_widen_the_interval_about_their_geometric_mean() -> None:
    found = cheaper([[(10, 0.1), (1000, 0.5)]] * 2, [[(1, 0.1), (100, 0.5)], [(1, 0.1), (10, 0.5)]], level=0.5)
    assert found.times == pytest.approx((10 * 100) ** 0.5)
    assert found.interval.low < 10
    assert found.interval.high > 100


def test_a_first_point_above_the_level_gives_only_a_bound() -> None:
    found = cheaper([[(1, 0.2), (1000, 0.8)]], [[(1, 0.9)]])
    assert found.at_least
    assert found.times == pytest.approx(1000)
    assert "at least 1e+03×" in found.line()


def test_a_level_never_reached_is_inconclusive_and_missing_curves_are_refused() -> None:
    with pytest.raises(Inconclusive, match=r"reaches 95\.0%"):
        cheaper([[(1, 0.2)]], [[(1, 0.9)]], level=0.95)
    with pytest.raises(UsageError, match="got 0 and 1"):
        cheaper([[(1, 0.2)]], [])
