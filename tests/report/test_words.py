from leakmeter.report.words import cost_words, days, duration, short
from leakmeter.results import CopyCost


def test_a_cost_claims_no_more_than_the_curve_shows(make_audit):
    arm = make_audit(attacks=1, views=("probs",)).verdict.arms[0]

    def words(queries, low, high):
        return cost_words(arm, CopyCost(fidelity=0.9, queries=queries, low=low, high=high))

    assert words(None, None, None) == ("not within 8,000", "")
    assert words(None, 6000, None) == ("not within 8,000", "at best 6,000")
    assert words(250, 250, 250) == ("at most 250", "")
    assert words(250, 250, 600) == ("at most 250", "or up to 600")
    assert words(3000, 2000, None) == ("3,000", "2,000 to over 8,000")


def test_numbers_in_words():
    assert [short(value) for value in (7, 250, 1000, 2500, 1_500_000)] == ["7", "250", "1k", "2.5k", "1.5M"]
    assert [duration(value) for value in (3.21, 91, 7300)] == ["3.2 s", "1 min 31 s", "2 h 1 min"]
    assert [days(value) for value in (0.2, 1.1, 29.7)] == ["less than a day", "1 day", "30 days"]
