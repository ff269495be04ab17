"""Every study tells what it found in lines: paper, ours, interval, seeds, budget, met or not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from leakmeter.cli import app
from leakmeter.studies import ROWS, STUDIES
from leakmeter.studies.held import content
from leakmeter.studies.milli._table import Claim, Measured, accuracy_at, worth
from leakmeter.studies.rows import Row, by_group, of_median, share

ROOT = Path(__file__).parents[2]
MEASURED = [name for name in STUDIES if (ROOT / "results" / name / f"{name}.json").exists()]


@pytest.mark.parametrize("name", list(STUDIES))
def test_every_study_has_rows(name: str) -> None:
    assert callable(ROWS[name])


@pytest.mark.parametrize("name", MEASURED)
def test_every_record_tells_its_lines(name: str) -> None:
    rows = ROWS[name](content(name, ROOT / "results"))
    assert rows
    assert all(row.what and row.ours and row.budget and row.paper for row in rows)
    assert all(row.seeds >= 1 or row.ours == "not run" for row in rows)
    assert all(row.ours != "not run" or row.met is None for row in rows)


def test_a_line_has_everything() -> None:
    row = share("copies", [0.5, 0.7], 1000, "2,000 queries", paper=0.65)
    assert row.line().startswith("copies: paper 65.0%; here 60.0% (")
    assert row.line().endswith("; 2 seeds; 2,000 queries; missed")
    alone = share("copies", [0.5], 1000, "10 queries")
    assert alone.line() == "copies: paper –; here 50.0% (46.9% to 53.1%, of inputs only); 1 seed; 10 queries; no goal"


def test_seeds_that_agree_are_shown_beside_what_they_leave_open() -> None:
    """Three that agree leave next to nothing known of a fourth; what they themselves are is known well."""
    told = share("copies", [0.94, 0.95, 0.96], 1000, "10 queries").ours
    assert told == "95.0% (94.0% to 96.0% by seed; these seeds: 93.5% to 96.3%, any seed: 27.8% to 98.8%)"


def test_what_does_not_compare_is_undecided() -> None:
    assert share("it", [0.9], 10, "–", paper=0.5, comparable=False).verdict == "undecided"
    assert share("it", [0.9], 10, "–", goal=0.5).verdict == "met"
    assert Row("it", "1", "–").verdict == "no goal"


def test_a_share_of_the_victim_may_pass_one() -> None:
    assert "to 1" in share("it", [1.02, 1.0, 1.01], 100, "–", most=1.1).ours


def test_medians_say_how_sure_they_are() -> None:
    assert of_median("it", [1.0, 2.0, 40_000.0], "–").ours == "2 (1 to 40,000, 75%)"


def test_cells_of_one_kind_are_put_together() -> None:
    assert by_group({"a/seed0": 1, "a/seed1": 2, "b/seed0": 3}) == {"a": [1, 2], "b": [3]}


def test_a_goal_inside_the_range_is_undecided() -> None:
    curves = {"membership + gradient": {1: [0.5]}, "membership": {1: [0.1], 10: [0.2], 100: [0.9]}}
    measured = Measured(0.9, curves, 1000)
    verdicts = [Claim("it", "so many", worth(), goal).row(measured).verdict for goal in (5, 50, 500)]
    assert verdicts == ["met", "undecided", "missed"]
    assert Claim("it", "so many", accuracy_at("membership", 7), 1).row(measured).met is None


def written(folder: Path, **found: Any) -> None:
    folder.mkdir(parents=True)
    (folder / f"{folder.name}.json").write_text(json.dumps({"command": "leakmeter study", "cells": {}, **found}))


def test_the_command_prints_what_results_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "results" / "stn-fig4", region={"points": 10, "renyi_over_pixeldp": [1.2, 3.0]})
    told = CliRunner().invoke(app, ["study", "stn-fig4", "--list"])
    assert told.exit_code == 0
    assert "Rényi over PixelDP, least: paper above 1; here 1.200; 1 seed; 10 points, no randomness; met" in told.output


def test_a_run_prints_its_lines(tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["study", "stn-fig4", "--quick", "--out", str(tmp_path)])
    assert told.exit_code == 0
    assert "; met" in told.output
