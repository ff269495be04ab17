"""The front that no explanation beats, and a rehearsal of the study of counterfactuals."""

from __future__ import annotations

from pathlib import Path

import pytest

from leakmeter.studies.options import StudyOptions
from leakmeter.studies.ours import counterfactuals
from leakmeter.studies.ours._pareto import cheapest, draw, front, leaks
from leakmeter.studies.ours._shown import markdown
from leakmeter.studies.ours.explanations import _better


def test_the_front_holds_what_no_other_beats() -> None:
    points = {"a": (0.2, 0.1), "b": (0.5, 0.6), "worse": (0.6, 0.5), "c": (0.9, 0.8), "same leak": (0.5, 0.2)}
    assert front(points) == ["a", "b", "c"]


def test_what_costs_least_tells_nearly_as_much_as_the_best() -> None:
    points = {"best": (0.9, 1.0), "nearly": (0.7, 0.95), "cheap": (0.2, 0.5), "as good, dearer": (0.8, 0.99)}
    assert cheapest(points) == "nearly"


def test_the_picture_shows_maps_only(tmp_path: Path) -> None:
    def row(leak: float, gap: float | None) -> dict:
        useful = {} if gap is None else {"gap": {"median": gap}}
        return {"fidelity": {10: {"mean": leak}, 100: {"mean": 0.97}}, "useful": useful}

    rows = {"gradient": row(0.9, 0.4), "reasons:4": row(0.5, 0.3), "counterfactual": row(0.8, None)}
    assert leaks(rows) == {"gradient": (0.9, 0.4), "reasons:4": (0.5, 0.3)}
    draw({"table": rows}, "leak", tmp_path / "made" / "figure.png")
    assert (tmp_path / "made" / "figure.png").stat().st_size > 1000


def test_a_thief_may_ignore_what_it_is_shown() -> None:
    assert _better([(10, 0.3), (100, 0.9)], [(10, 0.5), (100, 0.7)]) == [(10, 0.5), (100, 0.9)]


def test_a_thief_who_was_shown_nothing_was_looked_at_longer() -> None:
    assert _better([(10, 0.9)], [(10, 0.5), (1000, 0.97)]) == [(10, 0.9), (1000, 0.97)]


def test_the_table_says_what_a_copy_costs_with_and_without() -> None:
    plain = {"10": {"mean": 0.7}, "100": {"mean": 0.96}, "1000": {"mean": 0.99}}
    nothing = {
        "fidelity": plain,
        "queries": {"90%": [[11, 100], [11, 100]], "95%": [[11, 100], None]},
        "cheaper": {"90%": None, "95%": None},
        "useful": {},
    }
    cheap = {"times": 3.32, "interval": {"low": 1.1, "high": 100.0}}
    gradient = {
        "fidelity": {"10": {"mean": 0.94}, "100": {"mean": 0.97}},
        "queries": {"90%": [[1, 10], [1, 10]], "95%": [None, None]},
        "cheaper": {"90%": cheap, "95%": None},
        "useful": {"gap": {"median": 0.154}},
    }
    assert markdown({"nothing": nothing, "gradient": gradient}) == [
        "| shown | 10 queries | 100 queries | queries to 90% | times cheaper "
        "| queries to 95% | times cheaper | tells |",
        "|---|---|---|---|---|---|---|---|",
        "| `nothing` | 0.700 | 0.960 | 11 to 100 | | 11 to 100 in 1 of 2 | | |",
        "| `gradient` | 0.940 | 0.970 | 1 to 10 | 3.32 (1.1 to 100) | not reached | | 0.154 |",
    ]


def test_counterfactuals_are_rehearsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(counterfactuals, "ARMS", ("no counterfactuals", "boundary"))
    found = counterfactuals.main(StudyOptions(tmp_path, seeds=1, quick=True))
    assert found["table"]["breast-cancer"]["boundary"]["mean"] > 0.8
    assert "--quick" in found["command"]
