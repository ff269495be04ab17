"""Cells in processes: the bits of a single one; a dead worker costs a retry, a dead driver leaves nobody behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import safetensors.torch
import torch

import leakmeter as lm
from leakmeter.executors import make_executor

PLAN = {
    "victim": {"source": "net.py:Net"},
    "data": {"name": "digits", "limit": 150},
    "views": ["probs"],
    "budget": 60,
    "stops": [60],
    "seeds": [0, 1],
    "attacks": [{"name": "surrogate", "student": "linear", "recipe": {"steps": 20}}],
}


def weights(run: Path) -> list[dict[str, torch.Tensor]]:
    return [safetensors.torch.load(path.read_bytes()) for path in sorted(run.glob("cells/*/substitute.safetensors"))]


@pytest.mark.parametrize("executor", ["local:2", "ray"])
def test_cells_give_the_bits_of_one_process_even_when_a_worker_dies(shop: Path, executor: str, request) -> None:
    if executor == "ray":
        request.getfixturevalue("cluster")
    victim = lm.load_victim("net.py:Net", input_shape=(1, 8, 8), low=0.0, high=1.0)
    here = lm.audit({**PLAN, "name": "here"}, victim=victim, out="runs")
    (shop / "die-once").touch()
    there = lm.audit({**PLAN, "name": "there"}, out="runs", executor=executor)
    assert (shop / "died").exists()
    assert [cell.curve for cell in here.cells] == [cell.curve for cell in there.cells]
    assert [cell.spending for cell in here.cells] == [cell.spending for cell in there.cells]
    one, two = (weights(next(shop.glob(f"runs/*-{name}"))) for name in ("here", "there"))
    assert len(one) == 2
    for left, right in zip(one, two, strict=True):
        assert all(torch.equal(left[key], right[key]) for key in left)


def test_all_cells_together_keep_to_the_total(shop: Path) -> None:
    victim = lm.load_victim("net.py:Net", input_shape=(1, 8, 8), low=0.0, high=1.0)
    total = 150 + 2 * (60 + 32) - 1  # to judge all copies; for a cell, and to see whether its answers repeat
    result = lm.audit({**PLAN, "total": total}, victim=victim, out="runs")
    assert [cell.status for cell in result.cells] == ["done", "failed"]
    assert "the budget has 31 queries left and 32 were asked" in result.cells[1].error
    assert result.exit_code == 4
    enough = lm.audit({**PLAN, "total": total + 1, "name": "enough"}, victim=victim, out="runs")
    assert [cell.status for cell in enough.cells] == ["done", "done"]


def test_killed_driver_leaves_no_worker_and_resumes(shop: Path) -> None:
    plan = json.loads(json.dumps(PLAN))
    plan["attacks"][0]["recipe"]["steps"] = 400_000
    script = (
        f"import leakmeter as lm\nif __name__ == '__main__':\n    lm.audit({plan!r}, out='runs', executor='local:2')\n"
    )
    (shop / "drive.py").write_text(script)
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    driver = subprocess.Popen([sys.executable, "drive.py"], env=env, stderr=subprocess.DEVNULL)
    wait_for(lambda: len(list(shop.glob("runs/*/cells/*/answers/answers.bin"))) == 2)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    (run,) = shop.glob("runs/*")
    wait_for(lambda: not locked(run))


def locked(run: Path) -> bool:
    import fcntl

    for lock in run.glob("cells/*/lock"):
        with lock.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
    return False


def wait_for(condition, seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.2)


@pytest.mark.parametrize("text", ["locl", "local:0", "local:x", "rray"])
def test_unknown_executors_are_refused(text: str) -> None:
    with pytest.raises(lm.UsageError, match="expected --executor"):
        make_executor(text)
