"""A study's record: cells of one code only, and what measured them stands inside."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from leakmeter.errors import UsageError
from leakmeter.studies import provenance
from leakmeter.studies.provenance import fingerprint
from leakmeter.studies.record import Record


def test_a_record_says_what_measured_it_and_keeps_its_cells(tmp_path: Path) -> None:
    Record(tmp_path, "it", "leakmeter study it", {"seeds": [0]}).cell("a", lambda: 1)
    written = json.loads((tmp_path / "it.json").read_text())
    assert (written["command"], written["code"], written["seeds"]) == ("leakmeter study it", fingerprint(), [0])
    assert "commit" in written
    assert Record(tmp_path, "it", "", {}).cell("a", lambda: 2) == 1


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ("extraction/dast.py", True),
        ("seeds.py", True),
        ("compute.py", True),
        ("report/html.py", False),
        ("cli.py", False),
    ],
)
def test_code_that_may_change_a_figure_is_in_the_fingerprint(
    file: str, told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So an attack's new default makes new copies; a page's new colour does not."""
    copy = tmp_path / "leakmeter"
    shutil.copytree(provenance.ROOT, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(provenance, "ROOT", copy)
    before = fingerprint.__wrapped__()
    assert before == fingerprint()
    (copy / file).write_text((copy / file).read_text() + "# changed\n")
    assert (fingerprint.__wrapped__() != before) is told


@pytest.mark.parametrize("code", ["0123456789abcdef", None])
def test_cells_of_other_code_are_not_put_together(tmp_path: Path, code: str | None) -> None:
    Record(tmp_path, "it", "", {}).cell("a", lambda: 1)
    written = json.loads((tmp_path / "it.json").read_text()) | {"code": code, "commit": "abc"}
    (tmp_path / "it.json").write_text(json.dumps(written))
    with pytest.raises(UsageError, match=r"measured by other code \(commit abc\)"):
        Record(tmp_path, "it", "", {})


def test_a_study_without_cells_has_its_time_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 100, 7))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    record = Record(tmp_path, "it", "", {})
    assert record.write(region=[1, 2])["seconds"] == 7
    record.cell("a", lambda: 1)
    assert record.content["seconds"] == 14


def test_two_processes_fill_one_record(tmp_path: Path) -> None:
    one, other = (Record(tmp_path, "it", "", {}) for _ in range(2))
    one.cell("a", lambda: 1)
    other.cell("b", lambda: 2)
    one.cell("c", lambda: 3)
    assert Record(tmp_path, "it", "", {}).content["cells"] == {"a": 1, "b": 2, "c": 3}


def test_a_part_of_a_study_is_one_process_s_at_a_time(tmp_path: Path) -> None:
    one, other = (Record(tmp_path, "it", "", {}) for _ in range(2))
    with one.claimed("seed 0") as first, other.claimed("seed 0") as second, other.claimed("seed 1") as third:
        assert (first, second, third) == (True, False, True)
    with other.claimed("seed 0") as again:
        assert again


def test_a_file_that_is_no_record_is_refused(tmp_path: Path) -> None:
    (tmp_path / "it.json").write_text("[]")
    with pytest.raises(UsageError, match="not the record of a study"):
        Record(tmp_path, "it", "", {})


def test_what_is_held_says_how_many_seeds_and_how_long(tmp_path: Path) -> None:
    from leakmeter.studies.held import held

    assert held("it", tmp_path) == "not in results"
    record = Record(tmp_path / "it", "it", "leakmeter study it --seed 0 --seeds 3", {})
    for seed in (0, 1):
        record.cell(f"a/seed{seed}", lambda: {"seconds": 90})
    assert held("it", tmp_path).startswith("2 seeds, ")  # of the three that were asked for
    Record(tmp_path / "it-more", "it", "leakmeter study it --seed 0 --seeds 1", {}).cell("a/seed0", lambda: {})
    assert held("it", tmp_path).endswith(" + 1 seed, time not recorded")  # a part of it
    shutil.rmtree(tmp_path / "it-more")
    written = json.loads((tmp_path / "it" / "it.json").read_text())
    for seconds, told in ((0, "3 min"), (7, "7 s"), (7200, "120 min")):
        (tmp_path / "it" / "it.json").write_text(json.dumps(written | {"seconds": seconds}))
        assert held("it", tmp_path) == f"2 seeds, {told}"
    (tmp_path / "it" / "it.json").write_text("[]")
    with pytest.raises(UsageError, match="not the record of a study"):
        held("it", tmp_path)
