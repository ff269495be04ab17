import pytest

from leakmeter.oracle.view import contains
from leakmeter.report.surfaces import surfaces


@pytest.mark.parametrize(
    ("view", "other", "expected"),
    [
        ("probs", "labels", True),
        ("labels", "probs", False),
        ("logits", "probs", True),
        ("logits", "top:3", True),
        ("probs", "logits", False),
        ("probs", "probs:2", True),
        ("probs", "top:3", True),
        ("probs:2", "probs", False),
        ("probs:3", "probs:2", True),
        ("probs:2", "probs:3", False),
        ("top:5", "top:3", True),
        ("top:3", "top:5", False),
        ("top:3", "probs:2", False),
        ("probs:2", "top:3", False),
        ("probs+gradient", "probs", True),
        ("probs+gradient", "labels+gradient", True),
        ("probs+gradient", "probs+lime", False),
        ("probs", "labels+gradient", False),
        ("<b>", "labels", True),
        ("probs:x", "probs:y", False),
    ],
)
def test_what_can_be_read_off_what(view, other, expected):
    assert contains(view, other) is expected


def test_seeing_more_never_reads_as_leaking_less(make_audit):
    """An attack that does worse with probabilities than with labels can throw the probabilities away."""
    result = make_audit(attacks=2)
    arms = [arm.model_copy(update={"copies": [[0.1]]}) if arm.view == "probs" else arm for arm in result.verdict.arms]
    result = result.model_copy(update={"verdict": result.verdict.model_copy(update={"arms": arms})})
    probs, labels = surfaces(result)
    assert probs.best == labels.best
    assert probs.named(probs.best) == "procedural, using only labels"
    assert labels.named(labels.best) == "procedural"
    assert not any(arm.control for arm in probs.attackers)
