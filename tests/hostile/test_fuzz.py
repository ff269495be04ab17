"""A few changed files of every format; `fuzz.py` itself makes ten thousand of each."""

from __future__ import annotations

from pathlib import Path

import pytest
from formats import FORMATS
from fuzz import fuzz

SLOW = ("catboost", "onnx", "pt2", "results", "skops", "xgboost json", "xgboost ubj")  # to make, to import or to ask


@pytest.mark.parametrize(
    "times", [pytest.param(25, id="quick"), pytest.param(10_000, id="long", marks=pytest.mark.slow)]
)
def test_changed_bytes_end_in_a_sentence_or_an_answer(tmp_path: Path, times: int) -> None:
    formats = [name for name in FORMATS if times > 25 or name not in SLOW]
    found = fuzz(formats, times, 1, tmp_path)
    assert {name: each.faults for name, each in found.items() if not each.fine} == {}
    assert all(each.mutations == times and each.refused > 0 for each in found.values())
