"""When the line is reached: against laws whose answer is known."""

import numpy as np
import pytest

from leakmeter.watch.forecast import DAY, forecast, reached


def test_a_power_law_is_followed_to_the_line():
    n = np.array([100.0, 200.0, 400.0])
    right = 1 - 2 * n**-0.5  # wrong 10 % at 400, so 5 % at 1600
    assert reached(n, right, 0.95) == pytest.approx(1600)
    times = np.linspace(0, 4 * DAY, 401)
    ahead = forecast([(int(a), float(b)) for a, b in zip(n, right, strict=True)], 100_000, times, 0.95)
    assert ahead is not None
    assert ahead.queries == pytest.approx(1600, abs=1)
    assert ahead.rate == pytest.approx(100)
    assert ahead.days == pytest.approx(12, rel=0.01)
    assert ahead.days_low < ahead.days < ahead.days_high


def test_copies_that_do_not_grow_never_arrive_and_one_point_says_nothing():
    ahead = forecast([(100, 0.7), (200, 0.6), (400, 0.5)], 5000, np.arange(400.0), 0.9)
    assert ahead is not None
    assert ahead.queries is None
    assert ahead.days is None
    assert forecast([(100, 0.7)], 5000, np.arange(100.0), 0.9) is None
    assert forecast([(100, 0.7), (200, 0.95)], 5000, np.arange(200.0), 0.9) is None
