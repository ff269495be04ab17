import pytest

from leakmeter.errors import Inconclusive, UsageError
from leakmeter.evaluation.cheaper import cheaper, queries_to


def test_queries_lie_between_the_points_about_the_level() -> None:
    curve = [(10, 0.5), (1000, 0.9)]
    assert queries_to(0.7, curve) == (11, 1000)
    assert queries_to(0.9, curve) == (11, 1000)
    assert queries_to(0.4, curve) == (1, 10)


def test_a_curve_that_falls_again_is_made_to_rise_first() -> None:
    assert queries_to(0.6, [(1, 0.2), (10, 0.8), (100, 0.5), (1000, 0.9)]) == (2, 10)
    assert queries_to(0.7, [(1, 0.2), (10, 0.8), (100, 0.5), (1000, 0.9)]) == (101, 1000)


def test_a_curve_shifted_by_a_hundred_is_a_hundred_times_cheaper() -> None:
    plain = [[(100, 0.3), (10_000, 0.7 + s)] for s in (0.0, 0.1, 0.2)]
    explained = [[(1, 0.3), (100, 0.7 + s)] for s in (0.0, 0.1, 0.2)]
    found = cheaper(plain, explained)
    assert found.level == pytest.approx(0.7)
    assert found.times == pytest.approx((101 * 10_000) ** 0.5 / (2 * 100) ** 0.5)
    assert (found.interval.low, found.interval.high) == (101 / 100, 10_000 / 2)
    assert found.interval.confidence == pytest.approx(0.75)  # 1 - 2 / 2^3
    assert not found.at_least
    assert "makes the copy 71.1× cheaper than showing probabilities (3 pairs of runs, 75% interval" in found.line()


def test_six_pairs_give_the_median_ninety_five_per_cent() -> None:
    explained = [[(1, 0.1), (2**k, 0.5)] for k in range(1, 7)]
    found = cheaper([[(999, 0.1), (1000, 0.5)]] * 6, explained, level=0.5)
    assert found.interval.confidence == pytest.approx(1 - 2 / 2**6)
    assert (found.interval.low, found.interval.high) == (1000 / 64, 500)
    assert found.times == pytest.approx((1000 / 16**0.5 + 1000 / 32**0.5) / 2)


def test_a_first_point_above_the_level_gives_only_a_bound() -> None:
    found = cheaper([[(1, 0.2), (1000, 0.8)]], [[(5, 0.9)]])
    assert found.at_least
    assert found.times == pytest.approx((2 * 1000) ** 0.5 / 5)
    assert "at least 8.94×" in found.line()
    assert "one pair of runs, between 0.4 and 1e+03" in found.line()


def test_curves_that_all_start_above_the_level_say_nothing() -> None:
    with pytest.raises(Inconclusive, match="put a point at fewer queries"):
        cheaper([[(100, 0.8)]], [[(100, 0.9)]])


def test_a_level_never_reached_is_inconclusive_and_missing_curves_are_refused() -> None:
    with pytest.raises(Inconclusive, match=r"reaches 95\.0%"):
        cheaper([[(1, 0.2)]], [[(1, 0.9)]], level=0.95)
    with pytest.raises(UsageError, match="got 0 and 1"):
        cheaper([[(1, 0.2)]], [])


def test_two_pairs_are_called_two_and_have_half_a_chance_each_side() -> None:
    found = cheaper([[(1, 0.2), (1000, 0.8)]] * 2, [[(1, 0.1), (10, 0.8)]] * 2)
    assert "(2 pairs of runs, 50% interval 0.2 to 500; compared at 80.0%)" in found.line()


def test_one_query_is_no_bound_but_the_least_there_is() -> None:
    found = cheaper([[(1, 0.2), (8, 0.8)]], [[(1, 0.9)]])
    assert not found.at_least
    assert found.times == pytest.approx((2 * 8) ** 0.5)
