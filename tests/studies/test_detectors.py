"""The table of the study of detectors, from cells whose answer is plain."""

import pytest

from leakmeter.studies.ours.detectors import summary


def test_a_thief_who_sets_nothing_off_counts_with_the_copy_it_had_in_the_end():
    cells = {
        "auto | seed 0": {"fidelity": 0.9, "mmd/1": {"queries": 100, "fidelity": 0.5}},
        "auto | seed 1": {"fidelity": 0.8, "mmd/1": {"queries": None, "fidelity": None}},
        "honest | mmd | seed 0": {"users": 10, "flagged": 1},
        "honest | mmd | seed 1": {"users": 10, "flagged": 0},
    }
    row = summary(cells, "mmd", "auto", 1, range(2))
    assert row["fired"] == "1 of 2"
    assert row["queries at the alarm"] == 100
    assert row["fidelity the thief had"] == pytest.approx(0.65)
    assert row["false alarms"] == pytest.approx(0.05)
