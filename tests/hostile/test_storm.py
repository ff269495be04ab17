"""A few runs of the storm; `storm.py` itself makes hundreds."""

from __future__ import annotations

from pathlib import Path

import pytest
from hostile_server import BEHAVIOURS
from storm import storm


@pytest.mark.parametrize("runs", [pytest.param(3, id="quick"), pytest.param(300, id="long", marks=pytest.mark.slow)])
def test_every_row_is_counted_none_too_many_and_every_run_ends(tmp_path: Path, runs: int) -> None:
    behaviours = ("reset", "shifted", "slow-body") if runs == 3 else tuple(BEHAVIOURS)
    tally = storm(runs, tmp_path, behaviours=behaviours)
    assert (tally.runs_with_uncounted_rows, tally.runs_over_budget) == (0, 0)
    assert tally.finished == tally.runs
    assert tally.kills + tally.resumes >= 1
    assert tally.rows_seen > 0
