from leakmeter.evaluation.tries import share_of_tries
from leakmeter.report.words import cost_words, days, duration, short
from leakmeter.results import CopyCost


def test_a_cost_claims_no_more_than_the_curve_shows(make_audit):
    arm = make_audit(attacks=1, views=("probs",)).verdict.arms[0]

    def words(made_low, made, rates):
        tries = share_of_tries(rates, 1000, 0.9)
        return cost_words(
            arm, CopyCost(fidelity=0.9, queries=None, low=1, high=None, made_low=made_low, made=made, tries=tries)
        )

    assert words(8001, None, [0.3, 0.4]) == ("not within 8,000", "0 of 2 tries")
    assert words(8001, None, [0.3, 0.93]) == ("not surely within 8,000", "1 of 2 tries")
    assert words(1, 250, [0.95, 0.4]) == ("1 to 250", "1 of 2 tries")
    assert words(1, 1, [0.95]) == ("1", "1 of 1 try")
    assert words(2001, 4000, [0.95, 0.95, 0.97]) == ("2,001 to 4,000", "3 of 3 tries")


def test_results_of_before_costs_were_bracketed_are_still_shown(make_audit):
    arm = make_audit(attacks=1, views=("probs",)).verdict.arms[0]
    assert cost_words(arm, CopyCost(fidelity=0.9, queries=None, low=None, high=None)) == ("not within 8,000", "")
    assert cost_words(arm, CopyCost(fidelity=0.9, queries=250, low=100, high=None)) == ("about 250", "")


def test_numbers_in_words():
    assert [short(value) for value in (7, 250, 1000, 2500, 1_500_000)] == ["7", "250", "1k", "2.5k", "1.5M"]
    assert [duration(value) for value in (3.21, 91, 7300)] == ["3.2 s", "1 min 31 s", "2 h 1 min"]
    assert [days(value) for value in (0.2, 1.1, 29.7)] == ["less than a day", "1 day", "30 days"]
