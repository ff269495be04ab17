"""Victims that never answer and workers that abort, stop or hang: the rest goes on, and an interrupt ends it all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

import leakmeter as lm
from leakmeter.errors import VictimError
from leakmeter.executors.job import Batch, Job
from leakmeter.executors.local import LocalExecutor
from leakmeter.oracle.limits import Limits

HANGING = """
import multiprocessing
import time
import torch

class Net(torch.nn.Linear):
    def __init__(self):
        super().__init__(4, 3)

    def forward(self, x):
        while len(x) > 4 and multiprocessing.parent_process():  # in a worker: inputs to score with are asked outside
            try:
                time.sleep(60)
            except {swallowed}:
                pass
        return super().forward(x)
"""
PLAN = {
    "victim": {"source": "net.py:Net", "low": 0.0, "high": 1.0},
    "attacks": [{"name": "surrogate", "recipe": {"steps": 5}}],
    "views": ["labels"],
    "budget": 40,
    "seeds": [0],
    "detectors": [],
    "patience": 1.5,
}


class Watcher:
    def __init__(self) -> None:
        self.results: dict[str, str] = {}
        self.failures: dict[str, str] = {}
        self.interruptions: list[str] = []

    def started(self, job: Job, where: str) -> None: ...

    def interrupted(self, job: Job, why: str) -> None:
        self.interruptions.append(f"{job.place}: {why}")

    def ended(self, job: Job, text: str) -> None:
        self.results[job.place] = text

    def failed(self, job: Job, why: str) -> None:
        self.failures[job.place] = why


class Obedient:
    """Does what the text of a job says."""

    def __init__(self, folder: Path, limits: Limits | None) -> None:
        self.folder = folder

    def run(self, text: str, folder: Path) -> str:
        mark = self.folder / "stopped"
        if text == "abort":
            os.abort()
        if text == "stop" and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGSTOP)
        if text == "interrupt":
            raise KeyboardInterrupt
        time.sleep(0.5)
        return text.upper()


def test_a_job_that_aborts_every_time_takes_no_other_down(tmp_path: Path) -> None:
    watch = Watcher()
    jobs = [Job("a", "abort"), Job("b", "fine"), Job("c", "interrupt"), Job("d", "fine")]
    LocalExecutor(2).run(Batch(partial(Obedient, tmp_path), tmp_path), jobs, watch)
    assert watch.results == {"b": "FINE", "d": "FINE"}
    assert "its process died" in watch.failures["a"]
    assert set(watch.failures) == {"a", "c"}
    assert all(line.startswith("a:") for line in watch.interruptions)


def test_a_worker_that_is_stopped_is_ended_and_its_job_begun_again(tmp_path: Path) -> None:
    watch = Watcher()
    batch = Batch(partial(Obedient, tmp_path), tmp_path, patience=4.0)
    LocalExecutor(1).run(batch, [Job("a", "stop")], watch)
    assert watch.results == {"a": "STOP"}
    assert watch.interruptions == ["a: its process gave no sign of life for 4 s"]


@pytest.mark.parametrize("swallowed", ["ZeroDivisionError", "BaseException"])
def test_a_victim_that_never_answers_a_worker_is_a_failed_cell(tmp_path: Path, monkeypatch, swallowed: str) -> None:
    (tmp_path / "net.py").write_text(HANGING.format(swallowed=swallowed))
    monkeypatch.chdir(tmp_path)
    result = lm.audit(PLAN, out="runs", executor="local:1")
    assert [cell.status for cell in result.cells] == ["failed"]
    assert "gave no answer within 1.5 s" in result.cells[0].error
    assert result.exit_code == 4


def test_a_victim_that_never_answers_here_is_a_sentence() -> None:
    class Slow(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            time.sleep(60 if len(x) > 4 else 0)
            return x[:, :3]

    victim = lm.load_victim(Slow(), input_shape=(4,), low=0.0, high=1.0)
    victim.patience = 0.3
    with pytest.raises(VictimError, match=r"gave no answer within 0.3 s"):
        lm.Oracle(victim, "probs", budget=100).query(torch.rand(9, 4))


def children(process: int) -> list[int]:
    tasks = Path(f"/proc/{process}/task")
    found = [each for task in tasks.glob("*/children") for each in task.read_text().split()]
    return [int(each) for each in found if b"spawn_main" in Path(f"/proc/{each}/cmdline").read_bytes()]


def test_an_interrupt_ends_an_audit_whose_victim_hangs_and_its_workers(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(HANGING.format(swallowed="BaseException"))
    (tmp_path / "plan.toml").write_text(
        'views = ["labels"]\nbudget = 40\nseeds = [0, 1]\ndetectors = []\n[victim]\nsource = "net.py:Net"\n'
        'low = 0.0\nhigh = 1.0\n[[attacks]]\nname = "surrogate"\nrecipe = { steps = 5 }\n'
    )
    command = [sys.executable, "-m", "leakmeter", "audit", "plan.toml", "--executor", "local:2"]
    driver = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 120
        while len(list(tmp_path.glob("runs/*/cells/*/ledger.sqlite"))) < 2:
            assert driver.poll() is None
            assert time.monotonic() < end
            time.sleep(0.1)
        time.sleep(1.0)
        workers = children(driver.pid)
        assert len(workers) >= 2
        driver.send_signal(signal.SIGINT)
        assert driver.wait(60) == 130
        end = time.monotonic() + 30
        while any(Path(f"/proc/{worker}").exists() for worker in workers):
            assert time.monotonic() < end
            time.sleep(0.1)
    finally:
        driver.kill()
        driver.wait()
        assert driver.stderr is not None
        driver.stderr.close()
