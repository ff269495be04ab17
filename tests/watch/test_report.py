"""What an owner reads of a client."""

from typing import Any

import pytest

from leakmeter.evaluation.intervals import exact
from leakmeter.plan import Policy
from leakmeter.watch.forecast import Forecast
from leakmeter.watch.record import ClientCopy, Point
from leakmeter.watch.report import _ahead, _grew, _row
from leakmeter.watch.ruling import false_alarms, judged


def client(**changes: Any) -> ClientCopy:
    points = [Point(queries=n, fidelity=r, interval=exact(r * 1000, 1000), thieves={"auto": r}) for n, r in GREW]
    facts: dict[str, Any] = {
        "client": "mallory",
        "queries": 600,
        "different": 600,
        "trained_on": 600,
        "novelty": 1.0,
        "balance": 0.9,
        "coverage": 0.1,
        "first": "2026-01-01T00:00:00Z",
        "last": "2026-01-03T00:00:00Z",
        "view": "probs",
        "fidelity": 0.894,
        "interval": exact(894, 1000),
        "thieves": {"auto": 0.894, "linear, labels": 0.6},
        "growth": points,
        "alarm": True,
    }
    return ClientCopy.model_validate(facts | changes)


GREW = [(150, 0.7), (300, 0.81), (600, 0.894)]


@pytest.mark.parametrize(
    ("days", "said"),
    [
        ((37.0, 4.1, None), ("37.0 days", "4.1 to never")),
        ((440.9, 48.0, 1_631_128.4), ("440.9 days", "48.0 to over ten years")),
        ((4000.0, 3700.0, None), ("over ten years", "over ten years to never")),
        ((None, 20.0, None), ("not at this rate", "20.0 to never")),
    ],
)
def test_nobody_is_told_of_a_million_days(days: Any, said: tuple[str, str]) -> None:
    names = ("days", "days_low", "days_high")
    numbers = dict.fromkeys(("queries", "queries_low", "queries_high"), 1)
    ahead = Forecast(line=0.95, rate=31.0, **numbers, **dict(zip(names, days, strict=True)))
    entry = _ahead(client(alarm=False, forecast=ahead))
    assert (entry.text, entry.below) == (said[0], f"{said[1]}; 31 queries a day")


def test_how_a_copy_grew_is_told_in_words_too() -> None:
    assert _grew(client()) == "mallory 70.0% at 150 queries, 81.0% at 300, 89.4% at 600"


def test_the_control_is_called_so_once() -> None:
    row = _row(client(honest=True))
    assert row.control
    assert "honest" not in row.entries[0].below


def test_two_intervals_of_one_copy_say_why_they_differ() -> None:
    policy = Policy.model_validate({"max_fidelity": {"queries": 1000, "value": 0.85}})
    verdict = judged(policy, 0.85, [client()], [], [])
    assert verdict.sentences[0].startswith("mallory holds a copy of 89.4% (87.3% to 91.2%) after 600 queries")
    assert verdict.rulings[0].message.endswith(", all 2 copies allowed for)")


def test_who_reaches_the_line_before_the_next_night_is_named_now() -> None:
    numbers = dict.fromkeys(("queries", "queries_low", "queries_high"), 700)
    ahead = Forecast(line=0.9, rate=310.0, **numbers, days=0.3, days_low=0.1, days_high=2.0)
    warned = client(alarm=False, soon=ahead.soon, forecast=ahead)
    assert warned.soon
    rates = false_alarms([warned, client(client="us", honest=True, alarm=True)], 3, 0.9)
    found = judged(Policy(), 0.9, [warned], rates, [])
    assert found.headline.endswith("none reaches 90%, 1 will within a day")
    assert found.sentences == [
        "mallory reaches 90% within a day if it goes on with 310 queries a day: it holds a copy of 89.4% (87.3% to "
        "91.2%) after 600 queries; 1 of 4 honest clients reach that line too, or will within a day (false alarms 0.6% "
        "to 80.6%)"
    ]
    assert not ahead.model_copy(update={"days": 1.5}).soon
    assert not ahead.model_copy(update={"days": None}).soon
