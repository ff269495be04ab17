"""What a few tries can and cannot say."""

from __future__ import annotations

import pytest
from scipy.stats import beta, binom
from statsmodels.stats.proportion import proportion_confint

from leakmeter.errors import UsageError
from leakmeter.evaluation.bounded import mean_bounds
from leakmeter.evaluation.intervals import attack_mean, certified_share, exact, median_interval
from leakmeter.evaluation.tries import MOST_SEEDS, first_made, seeds_for_share, seeds_to_pass, share_of_tries


def test_the_share_of_tries_is_clopper_and_pearson_where_no_copy_is_near_the_line() -> None:
    found = share_of_tries([1.0, 0.28, 1.0], 1000, 0.9)
    assert (found.reached, found.made) == (2, 3)
    assert found.share.low == pytest.approx(beta.ppf(0.025, 2, 2))
    assert found.share.high == pytest.approx(beta.ppf(0.975, 3, 1))
    assert found.words() == "2 of 3 tries reach 90.0% (9% to 99% of all would)"
    assert share_of_tries([0.3], 1000, 0.9).words() == "0 of 1 try reaches 90.0% (0% to 98% of all would)"


def test_a_copy_near_the_line_counts_on_both_sides() -> None:
    near = share_of_tries([0.905, 0.905, 0.905], 1000, 0.9)
    assert near.reached == 3
    assert near.share.low == 0
    assert near.share.high == 1


def test_seeds_to_pass_are_the_fewest_that_do() -> None:
    rates, line = [0.68, 0.7, 0.72], 0.85
    wanted = seeds_to_pass(rates, 10_000, line)
    assert wanted is not None
    for seeds, below in ((wanted - 1, False), (wanted, True)):
        assert (attack_mean([rates[k % 3] for k in range(seeds)], 10_000).high < line) == below


def test_no_number_of_seeds_mends_too_few_inputs() -> None:
    assert exact(85, 100).high > 0.9
    assert seeds_to_pass([0.85] * 3, 100, 0.9) is None
    assert seeds_to_pass([0.0, 1.0], 10**6, 0.55) is None  # 200 would not do
    assert seeds_to_pass([0.0, 1.0], 10**6, 0.58) is not None


@pytest.mark.parametrize(("share", "seeds"), [(0.5, 6), (0.2, 17), (0.05, 72)])
def test_seeds_for_a_share_are_the_fewest_whose_bound_is_below(share: float, seeds: int) -> None:
    assert seeds_for_share(share) == seeds
    assert exact(0, seeds).high <= share < exact(0, seeds - 1).high


def test_the_first_copy_made_by_any_seed() -> None:
    rates = {10: [0.2, 0.3, 0.2], 20: [0.5, 0.97, 0.4], 40: [0.96, 0.5, 0.5]}
    assert first_made(rates, 1000, 0.9) == (11, 20)
    assert first_made(rates, 1000, 0.99) == (41, None)
    assert first_made(rates, 1000, 0.1) == (1, 10)


def test_the_error_of_the_shared_inputs_stays_however_many_seeds_there_are() -> None:
    many = attack_mean([0.95] * 150, 400)
    one = exact(0.95 * 400, 400)
    assert many.low < one.low < 0.95 < one.high < many.high
    assert many.high - many.low < attack_mean([0.95] * 10, 400).high - attack_mean([0.95] * 10, 400).low


def test_ranks_say_how_sure_they_are() -> None:
    three = median_interval([1, 2, 3], [4, 5, 6])
    assert (three.low, three.high, three.confidence) == (1, 6, pytest.approx(0.75))
    ten = median_interval(list(range(10)), list(range(10)))
    assert (ten.low, ten.high) == (1, 8)  # the second lowest and the second highest
    assert ten.confidence == pytest.approx(1 - 2 * 11 / 1024)
    assert median_interval([1], [2]).confidence == 0


@pytest.mark.parametrize("rates", [[0.5], [0.9, 0.95], [0.2, 0.9, 1.0], [0.99] * 10])
def test_both_errors_add_like_standard_errors(rates: list[float]) -> None:
    found, mean = attack_mean(rates, 200), sum(rates) / len(rates)
    low, high = mean_bounds(rates, 0.025)
    below, above = proportion_confint(mean * 200, 200, 0.05, method="beta")
    assert found.low == pytest.approx(max(0, mean - ((mean - low) ** 2 + (mean - below) ** 2) ** 0.5))
    assert found.high == pytest.approx(min(1, mean + ((high - mean) ** 2 + (above - mean) ** 2) ** 0.5))
    assert (found.n, found.confidence) == (len(rates), 0.95)


def test_an_interval_of_rates_stays_between_0_and_1() -> None:
    for rates in ([0.0], [1.0], [0.01], [0.99]):
        found = attack_mean(rates, 20)
        assert 0 <= found.low <= rates[0] <= found.high <= 1


@pytest.mark.parametrize(("k", "alpha"), [(180, 0.001), (180, 0.05), (3, 0.05)])
def test_a_certified_share_allows_for_wrong_certificates_below(k: int, alpha: float) -> None:
    found, (low, high) = certified_share(k, 200, alpha), proportion_confint(k, 200, 0.05, method="beta")
    assert found.high == pytest.approx(high)
    assert found.low == pytest.approx(max(0, (low - alpha) / (1 - alpha)))


@pytest.mark.parametrize("n", [6, 9, 12, 20, 40])
def test_ranks_are_the_narrowest_that_are_sure_enough(n: int) -> None:
    found = median_interval(list(range(n)), list(range(n)))
    assert found.confidence >= 0.95
    assert found.confidence == pytest.approx(1 - 2 * binom.cdf(found.low, n, 0.5))
    assert 1 - 2 * binom.cdf(found.low + 1, n, 0.5) < 0.95


def test_what_has_no_pairs_is_refused() -> None:
    for lows, highs in (([], []), ([1.0], [])):
        with pytest.raises(UsageError, match="as many lower as upper ends"):
            median_interval(lows, highs)


def test_the_best_of_several_is_judged_more_strictly_than_one() -> None:
    """0.92 of 1,000 is surely above 0.9 by itself and 0.88 surely below it, but not the best of three."""
    assert exact(920, 1000).low > 0.9
    assert exact(880, 1000).high < 0.9
    assert first_made({10: [0.88], 20: [0.92]}, 1000, 0.9) == (11, None)  # two looks
    assert first_made({20: [0.92]}, 1000, 0.9) == (1, 20)
    assert first_made({10: [0.88] * 3, 20: [0.92] * 3}, 1000, 0.9) == (1, None)
    assert first_made({10: [0.85] * 3, 20: [0.94] * 3}, 1000, 0.9) == (11, 20)


def test_an_end_exactly_at_the_line_reaches_it() -> None:
    one = exact(900, 1000)
    assert first_made({10: [0.9]}, 1000, one.low) == (1, 10)
    assert first_made({10: [0.9], 20: [0.99]}, 1000, one.high)[0] == 1
    assert first_made({10: [0.9]}, 1000, one.high + 1e-9) == (11, None)
    at_low, at_high = (share_of_tries([0.9], 1000, line) for line in (one.low, one.high))
    assert (at_low.share.low, at_high.share.high) == (pytest.approx(0.025), 1.0)
    assert (at_low.reached, at_high.reached) == (1, 0)
    assert share_of_tries([0.9], 1000, 0.9).reached == 1


def test_more_than_two_hundred_seeds_are_nobodys() -> None:
    assert MOST_SEEDS == 200
    last = attack_mean([0.5] * 200, 10**6).high
    assert seeds_to_pass([0.5], 10**6, last + 1e-9) == 200
    assert seeds_to_pass([0.5], 10**6, last - 1e-9) is None
