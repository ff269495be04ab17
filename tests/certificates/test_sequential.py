"""The confidence sequence: its guarantee by simulation, its thresholds against the definition."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from leakmeter.certificates.confidence import clopper_pearson
from leakmeter.certificates.sequential import StoppingRule, log_wealth, lower_bound, samples_to_reach


def test_wealth_is_that_of_the_gambler():
    rng, p = np.random.default_rng(0), 0.3
    wealth, k = Fraction(1), 0
    for t, vote in enumerate(rng.random(60) < 0.7):
        forecast = (Fraction(k) + Fraction(1, 2)) / (t + 1)
        odds = Fraction(p)
        wealth *= forecast / odds if vote else (1 - forecast) / (1 - odds)
        k += int(vote)
        assert float(log_wealth(np.array(k), np.array(t + 1), p)) == pytest.approx(
            float(np.log(float(wealth))), rel=1e-10
        )


@pytest.mark.parametrize("p", [0.02, 0.5, 0.8413, 0.999])
def test_ever_passing_the_truth_is_as_rare_as_promised(p):
    alpha, runs, length = 0.05, 2000, 1000
    k = (np.random.default_rng(11).random((runs, length)) < p).cumsum(1)
    t = np.arange(1, length + 1)
    ever = (log_wealth(k, t, p) >= np.log(1 / alpha)).any(1).sum()
    assert ever <= binom.ppf(0.999, runs, alpha)
    # The same event seen through the lower bound, at the end of each run and at every tenth look of some.
    assert (lower_bound(k[:, -1], np.full(runs, length), alpha) > p).sum() <= ever
    looks = slice(9, None, 10)
    assert ((lower_bound(k[:200, looks], t[looks], alpha) > p).any(1)).mean() <= 2 * alpha


@pytest.mark.parametrize("p", [0.6, 0.8413, 0.999])
def test_a_rule_followed_to_its_end_errs_at_most_alpha_often(p):
    alpha, runs, n = 0.05, 4000, 1000
    rule = StoppingRule.for_target(p, n, alpha, every=50)
    k = (np.random.default_rng(13).random((runs, n)) < p).cumsum(1)[:, 49::50]
    passed, short = (k >= rule.above).any(1), (k <= rule.below).any(1)
    assert (passed | short).sum() <= binom.ppf(0.999, runs, alpha)


def test_thresholds_are_where_the_wealth_first_suffices():
    p, n, alpha = 0.8413, 333, 0.001
    rule = StoppingRule.for_target(p, n, alpha, every=50)
    assert rule.above.dtype.kind == "i"
    for look, t in enumerate([50, 100, 150, 200, 250, 300, 333]):
        enough = [float(log_wealth(np.array(k), np.array(t), p)) >= np.log(1 / alpha) + 1e-9 for k in range(t + 1)]
        above = [k for k in range(t + 1) if enough[k] and k > t * p]
        below = [k for k in range(t + 1) if enough[k] and k < t * p]
        assert rule.above[look] == (above[0] if above else t + 1)
        assert rule.below[look] == (below[-1] if below else -1)
        assert all(rule.decided(k, t) == enough[k] for k in range(t + 1))


@pytest.mark.parametrize("p", [0.001, 0.999])
def test_what_no_count_can_settle_is_never_settled(p):
    """So near to 0 or 1 that fifty votes cannot be too few, or too many."""
    rule = StoppingRule.for_target(p, 100, 0.001, every=50)
    if p < 0.5:
        assert rule.below.tolist() == [-1, -1]
        assert not rule.decided(0, 50)
    else:
        assert rule.above.tolist() == [51, 101]
        assert not rule.decided(100, 100)


def test_the_lower_bound_reaches_the_target_exactly_where_the_rule_stops():
    p, n, alpha = 0.9, 1000, 0.001
    rule = StoppingRule.for_target(p, n, alpha, every=50)
    t = np.arange(50, 1001, 50)
    reachable = rule.above <= t
    at = lower_bound(rule.above[reachable], t[reachable], alpha)
    before = lower_bound(rule.above[reachable] - 1, t[reachable], alpha)
    assert (at >= p - 1e-12).all()
    assert (before < p).all()


def test_lower_bound_is_below_clopper_pearson_and_not_by_much():
    k, n = np.array([0, 1, 500, 990, 1000]), np.full(5, 1000)
    fixed, _ = clopper_pearson(k, n, 0.001)
    anytime = lower_bound(k, n, 0.001)
    assert (anytime <= fixed).all()
    assert (fixed - anytime < 0.03).all()


@pytest.mark.parametrize("p", [0.5, 0.8413, 0.9999])
def test_fewest_votes_is_where_all_agreeing_first_suffices(p):
    n = samples_to_reach(p, 0.001)
    assert lower_bound(np.array([n]), np.array([n]), 0.001)[0] >= p - 1e-12
    assert lower_bound(np.array([n - 1]), np.array([n - 1]), 0.001)[0] < p


@pytest.mark.parametrize("p", [0.05, 0.3, 0.5, 0.77, 0.97])
@pytest.mark.parametrize("alpha", [0.5, 0.05, 0.001])
def test_bounds_and_fewest_votes_by_trying_them_all(p, alpha):
    ruin = np.log(1 / alpha) + 1e-9
    enough = [t for t in range(1, 400) if float(log_wealth(np.array(t), np.array(t), p)) >= ruin]
    assert samples_to_reach(p, alpha) == enough[0]
    k, t = np.array([0, 0, 1, 3, 9, 60]), np.array([0, 1, 1, 4, 10, 80])
    bounds = lower_bound(k, t, alpha)
    grid = np.linspace(1e-6, 1, 4001)[:-1]
    for hits, votes, bound in zip(k, t, bounds, strict=True):
        out = log_wealth(np.array(hits), np.array(votes), grid) >= ruin
        below = out & (grid <= hits / max(votes, 1))
        assert bound == pytest.approx(grid[below].max() if below.any() else 0, abs=3e-4)
