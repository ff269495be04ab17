"""A run directory is written whole or not at all, entered by one process, and resumed with its own plan only."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leakmeter.checkpoint import DiskCheckpoint
from leakmeter.errors import Inconclusive, UsageError
from leakmeter.files import write_atomic
from leakmeter.models import make_model
from leakmeter.models.saved import load_network, save_network
from leakmeter.runs.run import Run, differences, fresh_path

PLAN = {"name": "small", "budget": 100, "seeds": [0, 1], "victim": {"source": "a:b", "low": 0.0, "high": None}}


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_no_draft(tmp_path, monkeypatch, step: str) -> None:
    path = tmp_path / "results.json"
    write_atomic(path, b"old")

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os if step == "fsync" else Path, step, fail)
    with pytest.raises(OSError, match="No space left"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_makes_its_folder_and_replaces_what_was_there(tmp_path) -> None:
    path = tmp_path / "deep" / "er" / "file"
    write_atomic(path, b"old")
    write_atomic(path, b"new")
    assert path.read_bytes() == b"new"


def test_entering_twice_with_one_plan_is_going_on(tmp_path) -> None:
    run = Run.enter(tmp_path / "run", PLAN)
    assert (run.path / "env.json").exists()
    again = Run.enter(tmp_path / "run", PLAN)
    assert again.plan == Run.open(tmp_path / "run").plan
    assert again.plan["victim"] == {"source": "a:b", "low": 0.0}


def test_another_plan_is_refused_and_what_changed_is_said(tmp_path) -> None:
    Run.enter(tmp_path / "run", PLAN)
    changed = {**PLAN, "budget": 200, "victim": {"source": "a:b", "low": 0.5}, "more": True}
    with pytest.raises(UsageError) as caught:
        Run.resume(tmp_path / "run", changed)
    for phrase in (
        "budget was 100 and is now 200",
        "more was None and is now True",
        "victim.low was 0.0 and is now 0.5",
        "start a new run",
    ):
        assert phrase in str(caught.value)
    assert "seeds" not in str(caught.value)


TOML = st.recursive(
    st.one_of(st.integers(-100, 100), st.booleans(), st.text("ab\"\\\n'=[", max_size=5), st.floats(allow_nan=False)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text("ab.# ", max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=40)
@given(st.dictionaries(st.text("xyz", min_size=1, max_size=3), TOML, max_size=4))
def test_any_plan_can_be_resumed_with_itself(tmp_path_factory, plan: dict) -> None:
    path = tmp_path_factory.mktemp("runs") / "run"
    Run.enter(path, plan)
    Run.resume(path, plan)


def test_differences_reach_into_tables() -> None:
    assert differences({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}) == ["a.c was 2 and is now 3"]


def test_what_is_no_run_is_named(tmp_path) -> None:
    with pytest.raises(UsageError, match=r"has no plan\.toml"):
        Run.open(tmp_path)
    (tmp_path / "plan.toml").write_bytes(b"\xff = [")
    with pytest.raises(UsageError, match="cannot read the plan of"):
        Run.open(tmp_path)


HOLD = """
import sys
from pathlib import Path
from leakmeter.runs.run import Run
with Run(Path(sys.argv[1]), {}).held():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_two_processes_never_work_in_one_run(tmp_path) -> None:
    run = Run.enter(tmp_path / "run", PLAN)
    command = [sys.executable, "-c", HOLD, str(run.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(UsageError, match="another process is working in"), run.held():
            pass
        process.kill()  # a killed process holds nothing
        process.wait()
        with run.held():
            pass


def test_an_error_inside_a_held_run_stays_what_it_is(tmp_path) -> None:
    run = Run.enter(tmp_path / "run", PLAN)
    with pytest.raises(FileNotFoundError, match="the data"), run.held():
        raise FileNotFoundError(errno.ENOENT, "the data")


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UsageError, match=r"cannot write to .*: Not a directory; choose another --out"):
        Run.enter(tmp_path / "file" / "run", PLAN)


def test_a_fresh_path_is_free_and_safe_to_type(tmp_path) -> None:
    first = fresh_path(tmp_path, "my net/ä b:c")
    first.mkdir()
    assert fresh_path(tmp_path, "my net/ä b:c") != first
    assert first.parent == tmp_path
    assert not set(" /:") & set(first.name)


def test_a_checkpoint_comes_back_and_a_damaged_one_is_named(tmp_path) -> None:
    checkpoint = DiskCheckpoint(tmp_path / "checkpoint" / "game.pt")
    assert checkpoint.load() is None
    state = {"step": 3, "weights": torch.rand(4), "notes": {"a": [1.5, None]}}
    checkpoint.save(state)
    found = checkpoint.load()
    assert torch.equal(found["weights"], state["weights"])
    assert (found["step"], found["notes"]) == (3, state["notes"])
    path = tmp_path / "checkpoint" / "game.pt"
    whole = path.read_bytes()
    for content in (b"", b"garbage", whole[: len(whole) // 2]):
        path.write_bytes(content)
        with pytest.raises(Inconclusive, match="is damaged; delete it to redo that part") as caught:
            checkpoint.load()
        assert caught.value.exit_code == 4


def test_a_checkpoint_runs_no_code(tmp_path) -> None:
    ran = tmp_path / "ran"

    class Trap:
        def __reduce__(self) -> tuple:
            return os.mkdir, (str(ran),)

    torch.save({"trap": Trap()}, tmp_path / "trap.pt")
    with pytest.raises(Inconclusive):
        DiskCheckpoint(tmp_path / "trap.pt").load()
    assert not ran.exists()


def test_checkpoints_are_due_after_some_seconds_only(tmp_path, monkeypatch) -> None:
    now = [100.0]
    monkeypatch.setattr("leakmeter.checkpoint.time.monotonic", lambda: now[0])
    checkpoint = DiskCheckpoint(tmp_path / "c.pt")
    assert not checkpoint.due()
    now[0] += 5
    assert checkpoint.due()
    checkpoint.save({})
    assert not checkpoint.due()


def test_a_network_is_built_again_by_name(tmp_path) -> None:
    model = make_model("mlp:7", (5,), 3, seed=1).eval()
    save_network(model, tmp_path / "s.safetensors", "mlp:7", (5,), 3)
    x = torch.rand(4, 5)
    assert torch.equal(load_network(tmp_path / "s.safetensors")(x), model(x))
    save_network(model, tmp_path / "other.safetensors", "mlp:9", (5,), 3)
    (tmp_path / "garbage.safetensors").write_bytes(b"nothing")
    for name in ("other", "garbage", "absent"):
        with pytest.raises(UsageError, match="does not hold a substitute that can be built by name") as caught:
            load_network(tmp_path / f"{name}.safetensors")
        assert "\n" not in str(caught.value)
