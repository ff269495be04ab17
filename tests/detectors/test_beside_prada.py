"""The detectors beside PRADA: silent on honest queries, loud on those of thieves, and the same in any pieces."""

import pytest
import torch

from leakmeter.detectors import prepared
from leakmeter.errors import UsageError
from leakmeter.seeds import stream

NAMES = ("hoda", "mmd", "seat")


def natural(n, seed):
    """Three clumps, one a class, and their labels."""
    draws = stream(seed, "natural")
    labels = torch.randint(3, (n,), generator=draws)
    middles = torch.tensor([[0.2, 0.2, 0.8, 0.5], [0.8, 0.2, 0.2, 0.5], [0.5, 0.8, 0.5, 0.2]])
    return (middles[labels] + 0.06 * torch.randn(n, 4, generator=draws)).clamp(0, 1), labels


def answered(x):
    middles = torch.tensor([[0.2, 0.2, 0.8, 0.5], [0.8, 0.2, 0.2, 0.5], [0.5, 0.8, 0.5, 0.2]])
    return torch.cdist(x, middles).argmin(1)


KNOWN = natural(400, 0)


@pytest.mark.parametrize("name", ["mmd", "seat"])  # one class may be easier than all together: HODA knows no habits
def test_honest_users_with_habits_set_nothing_off(name):
    for seed in range(1, 6):
        x, labels = natural(400, seed)
        x, labels = x[labels == seed % 3], labels[labels == seed % 3]
        detector = prepared(name, KNOWN)
        detector.observe(torch.cat([x, x[:50]]), torch.cat([labels, labels[:50]]))
        assert detector.fired_at is None


@pytest.mark.parametrize("name", NAMES)
def test_honest_queries_of_all_kinds_set_nothing_off(name):
    detector = prepared(name, KNOWN)
    detector.observe(*natural(500, 9))
    assert detector.fired_at is None
    assert detector.queries == 500


@pytest.mark.parametrize("name", ["hoda", "mmd"])
def test_points_of_the_box_are_noticed(name):
    x = torch.rand(400, 4, generator=stream(0, "box"))
    detector = prepared(name, KNOWN)
    detector.observe(x, answered(x))
    assert detector.fired_at is not None
    assert detector.fired_at <= 200


def test_seat_fires_at_the_query_that_makes_the_last_pair():
    seeds, _ = natural(30, 3)
    jitter = seeds + 1e-5
    x = torch.cat([seeds, seeds, jitter])
    detector = prepared("seat:7", KNOWN)
    detector.observe(x, answered(x))
    assert detector.fired_at == 30 + 30 + 7


@pytest.mark.parametrize("name", NAMES)
def test_pieces_do_not_matter_and_nothing_is_said_before_learning(name):
    x = torch.cat([natural(120, 5)[0], torch.rand(200, 4, generator=stream(1, "box"))])
    whole, pieces = prepared(name, KNOWN), prepared(name, KNOWN)
    whole.observe(x, answered(x))
    for part in torch.split(x, 37):
        pieces.observe(part, answered(part))
    assert (whole.fired_at, whole.queries) == (pieces.fired_at, pieces.queries)
    untaught = prepared(name, None)
    untaught.observe(x, answered(x))
    assert (untaught.fired_at, untaught.queries) == (None, 320)


@pytest.mark.parametrize("text", ["hoda:3", "mmd:2", "seat:0"])
def test_wrong_numbers_are_a_sentence(text):
    with pytest.raises(UsageError, match="expected"):
        prepared(text, None)
