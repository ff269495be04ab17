"""Intervals against two other libraries, and their coverage by exact sums and by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, binomtest
from statsmodels.stats.proportion import proportion_confint

from leakmeter.certificates import clopper_pearson, high_probability_accuracy
from leakmeter.certificates.confidence import samples_needed, top_two
from leakmeter.errors import UsageError

CASES = [(0, 1), (1, 1), (0, 100), (100, 100), (1, 100), (50, 100), (99, 100), (999, 1000), (100_000, 100_000)]


@pytest.mark.parametrize(("k", "n"), [*CASES, (99_990, 100_000), (3, 1_000_000)])
@pytest.mark.parametrize("alpha", [0.05, 0.001, 1e-6])
def test_matches_statsmodels_and_scipy(k, n, alpha):
    lower, upper = clopper_pearson(k, n, alpha)
    np.testing.assert_allclose((lower, upper), proportion_confint(k, n, 2 * alpha, method="beta"), rtol=0, atol=1e-12)
    interval = binomtest(k, n).proportion_ci(1 - 2 * alpha)
    np.testing.assert_allclose((lower, upper), interval, rtol=0, atol=1e-12)


def test_is_vectorised():
    k, n = (np.array(column) for column in zip(*CASES, strict=True))
    lower, upper = clopper_pearson(k, n, 0.01)
    for i, case in enumerate(CASES):
        assert (lower[i], upper[i]) == clopper_pearson(*case, 0.01)


@pytest.mark.parametrize("n", [5, 40])
def test_each_side_misses_at_most_alpha_often(n):
    k = np.arange(n + 1)
    lower, upper = clopper_pearson(k, n, 0.05)
    for p in np.linspace(0.001, 0.999, 101):
        chance = binom.pmf(k, n, p)
        assert chance[lower > p].sum() <= 0.05
        assert chance[upper < p].sum() <= 0.05


@pytest.mark.parametrize(("k", "n", "alpha"), [(5, 4, 0.1), (-1, 4, 0.1), (1, 4, 0.0), (1, 4, 1.0), (0, 0, 0.1)])
def test_refuses_what_is_no_count(k, n, alpha):
    with pytest.raises(UsageError, match="expected"):
        clopper_pearson(k, n, alpha)


@pytest.mark.parametrize("runner_up", ["rest", "classes"])
@pytest.mark.parametrize("p", [[0.5, 0.3, 0.2], [0.34, 0.33, 0.33], [0.9, 0.05, 0.05]])
def test_the_top_two_are_jointly_wrong_at_most_alpha_often(runner_up, p):
    alpha, trials = 0.1, 20_000
    counts = np.random.default_rng(3).multinomial(100, p, size=trials)
    p1, p2 = top_two(counts, np.zeros(trials, dtype=int), alpha, runner_up)
    wrong = ((p1 > p[0]) | (p2 < max(p[1:]))).sum()
    assert wrong <= binom.ppf(0.999, trials, alpha)
    assert (p1 + p2 <= 1).all()


def test_bounding_every_class_pays_where_the_rest_is_spread_out():
    counts = np.array([[600, 100, 100, 100, 100]])
    gaps = {how: np.subtract(*top_two(counts, np.array([0]), 0.001, how)) for how in ("rest", "classes")}
    assert gaps["classes"] > gaps["rest"] + 0.2


@pytest.mark.parametrize("alpha", [0.05, 0.001, 0.5, 0.25])
def test_fewest_samples_is_where_all_agreeing_first_certifies(alpha):
    n = samples_needed(alpha)
    assert clopper_pearson(n, n, alpha)[0] > 0.5
    assert n == 1 or clopper_pearson(n - 1, n - 1, alpha)[0] <= 0.5 + 1e-15


def test_high_probability_accuracy_fails_at_most_rho_often():
    total, alpha, rho, truly = 500, 0.01, 0.05, 400
    wrong = np.random.default_rng(5).binomial(total, alpha, size=20_000)  # false certificates on top of the true ones
    claims = np.array([high_probability_accuracy(min(total, truly + w), total, alpha, rho=rho) for w in range(30)])
    assert (claims[wrong] > truly / total).mean() <= rho
    assert high_probability_accuracy(truly, total, alpha, rho=rho) < truly / total
    assert high_probability_accuracy(0, total, alpha) == 0


def test_high_probability_accuracy_is_tighter_than_bernstein():
    # Cohen et al. (2019), appendix D
    m, total, alpha, rho = 900, 1000, 0.001, 0.001
    log = np.log(1 / rho)
    bernstein = m / total - alpha - np.sqrt(2 * alpha * (1 - alpha) * log / total) - log / (3 * total)
    assert bernstein < high_probability_accuracy(m, total, alpha, rho=rho) < m / total


@pytest.mark.parametrize(("certified", "total"), [(-1, 10), (11, 10), (0, 0)])
def test_high_probability_accuracy_refuses_what_is_no_count(certified, total):
    with pytest.raises(UsageError, match=f"got {certified} of {total}"):
        high_probability_accuracy(certified, total, 0.001)


def test_high_probability_accuracy_at_the_ends_of_its_range():
    assert high_probability_accuracy(1, 1, 1e-9) == 1
    assert high_probability_accuracy(0, 1, 0.5) == 0
    assert high_probability_accuracy(10, 10, 1e-9) == 1
    assert high_probability_accuracy(90, 100, 0.01) == high_probability_accuracy(90, 100, 0.01, rho=0.001)
    assert high_probability_accuracy(90, 100, 0.01, rho=0.5) == 0.89  # one of a hundred is wrong as often as not


def test_both_runners_up_against_the_definition():
    counts = np.array([[70, 20, 10], [5, 90, 5], [34, 33, 33]])
    for top in (np.array([0, 1, 0]), np.array([1, 1, 2])):
        votes = counts[np.arange(3), top]
        p1, p2 = top_two(counts, top, 0.05, "rest")
        np.testing.assert_allclose(p1, [proportion_confint(k, 100, 0.1, method="beta")[0] for k in votes])
        np.testing.assert_allclose(p2, 1 - p1)
        p1, p2 = top_two(counts, top, 0.05, "classes")
        ends = np.array([[proportion_confint(k, 100, 0.1 / 3, method="beta") for k in row] for row in counts])
        np.testing.assert_allclose(p1, ends[np.arange(3), top, 0])
        others = [max(ends[i, j, 1] for j in range(3) if j != top[i]) for i in range(3)]
        np.testing.assert_allclose(p2, np.minimum(others, 1 - p1))
