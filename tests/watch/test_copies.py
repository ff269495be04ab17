"""The best of several thieves is stated, and its interval covers that it was the best of several."""

import numpy as np
import pytest

from leakmeter.evaluation.intervals import exact
from leakmeter.watch.copies import best_of


def test_the_best_copy_is_stated_with_a_wider_interval():
    point = best_of(50, {"auto": 0.7, "lenet, softened": 0.9, "linear, labels": 0.8}, 200)
    assert point.fidelity == 0.9
    alone = exact(180, 200)
    assert point.interval.low < alone.low < alone.high < point.interval.high
    assert best_of(50, {"auto": 0.9}, 200).interval == alone


@pytest.mark.parametrize("truth", [(0.8, 0.8, 0.8, 0.8), (0.9, 0.7, 0.85, 0.88)])
def test_the_interval_covers_the_best_of_equally_good_thieves(truth):
    draws = np.random.default_rng(0)
    found = [best_of(1, dict(zip("abcd", draws.binomial(200, truth) / 200, strict=True)), 200) for _ in range(1000)]
    assert np.mean([point.interval.low <= max(truth) <= point.interval.high for point in found]) >= 0.95
