"""A run that can be watched: what it will take, how far each cell is, and tables and pictures of it in Python."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from leakmeter._audit.estimate import answers_a_second, estimate
from leakmeter._audit.flow import audit, preview
from leakmeter._audit.watching import Watch, spent_in, watching
from leakmeter.cli import app
from leakmeter.display import PlainDisplay, as_progress
from leakmeter.oracle.ledger import Ledger
from leakmeter.plan import make_plan
from leakmeter.progress import SILENT
from leakmeter.victims.load import load_victim

LINEAR = """
import numpy as np
def model():
    return lambda x: x @ np.arange(12.0).reshape(4, 3) % 1.7
"""


@pytest.fixture
def plan(tmp_path) -> dict:
    (tmp_path / "own.py").write_text(LINEAR)
    np.savez(tmp_path / "own.npz", x=np.random.default_rng(0).random((40, 4)).astype(np.float32))
    return {
        "victim": {"source": f"{tmp_path}/own.py:model", "outputs": "logits", "low": 0.0, "high": 1.0},
        "data": {"name": f"{tmp_path}/own.npz"},
        "attacks": [{"name": "surrogate", "recipe": {"steps": 20, "lr": 0.01}}],
        "budget": 20,
        "seeds": [0, 1],
        "views": ["labels"],
        "detectors": [],
    }


class Lines(PlainDisplay):
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, line: str) -> None:
        self.said.append(line)


def test_the_size_of_an_audit_is_told_before_the_first_query(plan, tmp_path) -> None:
    priced = plan | {"prices": {"query": 0.5, "currency": "EUR"}}
    found = preview(priced, "local:2")
    assert (found.cells, found.queries, found.scoring, found.money, found.untold) == (2, 40, 40, 20.0, ("surrogate",))
    assert "2 cells, at most 40 queries, at most 20.00 EUR, and 40 to score with" in found.lines()[0]
    assert found.lines()[1].endswith("on 2 cores, besides the learning of surrogate")
    import tomli_w

    (tmp_path / "plan.toml").write_text(tomli_w.dumps(priced))
    shown = CliRunner().invoke(
        app, ["audit", str(tmp_path / "plan.toml"), "--dry-run", "--out", str(tmp_path / "runs")]
    )
    assert (shown.exit_code, "at most 40 queries" in shown.stdout) == (0, True)
    assert not (tmp_path / "runs").exists()
    assert preview(plan | {"total": 30}).queries == 30


def test_an_attack_that_can_tell_its_time_is_added_up(plan) -> None:
    victim = load_victim(lambda x: x, input_shape=(4,), low=0.0, high=1.0)
    one = make_plan(plan | {"attacks": [{"name": "auto"}], "seeds": [0], "budget": 200, "stops": [200]})
    two = make_plan(plan | {"attacks": [{"name": "auto"}], "seeds": [0, 1], "budget": 200, "stops": [200]})
    short, long = (estimate(each, victim, None, 1) for each in (one, two))
    assert short.learning > 1
    assert long.learning == pytest.approx(2 * short.learning)
    assert short.untold == ()


def test_the_wait_for_a_slow_models_test_inputs_is_told(plan, monkeypatch) -> None:
    monkeypatch.setattr("leakmeter._audit.estimate.answers_a_second", lambda victim, plan: 10.0)
    found = preview(plan)
    assert found.before == 4.0
    assert found.seconds >= 4.0
    assert found.lines()[-1] == "first the test inputs are answered: 4 s"


def test_a_slow_model_is_measured_in_about_two_seconds(plan) -> None:
    import time

    asked = []

    def slow(x: np.ndarray) -> np.ndarray:
        asked.append(len(x))
        time.sleep(0.002 * len(x))
        return x

    victim = load_victim(slow, input_shape=(4,), low=0.0, high=1.0)
    asked.clear()
    rate = answers_a_second(victim, make_plan(plan))
    assert sum(asked) < 3000
    assert 0 < rate <= 500


def test_lines_come_at_once_and_in_order(plan, tmp_path) -> None:
    lines = Lines()
    result = audit(plan, out=tmp_path / "runs", executor="inline", progress=lines)
    assert lines.said[0] == f"run: {result.folder}"
    assert lines.said[1].startswith("plan: 2 cells")
    assert lines.said[2].startswith("time: about")
    assert lines.said[-1].startswith("report:")
    table = result.to_frame()
    assert list(table["seed"]) == [0, 1]
    assert set(table["queries"]) == {20}
    assert table["fidelity"].between(0, 1).all()
    assert "<" in result._repr_html_()


def test_a_running_cell_tells_how_far_it_is(tmp_path) -> None:
    folder = tmp_path / "cells" / "a"
    folder.mkdir(parents=True)
    clock = iter([0.0, 10.0, 20.0, 30.0])
    watch = Watch(tmp_path, 1000, lambda: next(clock))
    assert watch.lines(["cells/a"]) == ["cells/a: starting"]
    ledger = Ledger(folder / "ledger.sqlite", budget=1000)
    ledger.reserve("attack", [100])
    assert spent_in(folder) == 100
    assert watch.lines(["cells/a"]) == ["cells/a: 100 of 1,000 queries"]
    ledger.reserve("attack", [200])
    assert watch.lines(["cells/a"]) == ["cells/a: asking, 300 of 1,000 queries (20.0/s since the last line)"]
    assert watch.lines(["cells/a"]) == ["cells/a: learning, 300 of 1,000 queries"]
    ledger.close()


def test_watching_ends_with_its_block(tmp_path) -> None:
    import threading
    import time

    lines = Lines()
    with watching(lines, tmp_path, lambda: ["cells/a"], 10, first=0.01):
        end = time.monotonic() + 30
        while not lines.said and time.monotonic() < end:
            time.sleep(0.01)
    assert lines.said[0] == "cells/a: starting"
    assert not any(thread.name == "leakmeter-watch" for thread in threading.enumerate())


def test_progress_is_shown_where_somebody_looks(monkeypatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert as_progress(False) is SILENT
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert as_progress(True) is SILENT
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert as_progress(True) is not SILENT
    assert as_progress(SILENT) is SILENT


def test_every_line_of_a_watched_run_is_in_a_folder_that_exists(plan, tmp_path) -> None:
    """Cells in other processes: the lines name folders of the run."""
    lines = Lines()
    result = audit(plan, out=tmp_path / "runs", executor="local:1", progress=lines)
    assert len(result.cells) == 2
    assert all((Path(result.folder) / line.split(":")[0]).exists() for line in lines.said if line.startswith("cells/"))
