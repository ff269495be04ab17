"""A real cluster of two nodes on loopback, an audit of a remote victim on it, and deaths in the middle of it."""

import json
import os
import re
import secrets
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import tomli_w
import torch

pytest.importorskip("ray")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")]

BUDGET, CELLS = 128, 12
TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}  # of this cluster, which ends with the test
ENV = {**os.environ, **TOKEN, "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}
SERVER = Path(__file__).parents[1] / "victims" / "misbehaving.py"


def plan(victim: str) -> dict[str, Any]:
    """Few questions and long training: who is killed is killed while it trains, when no answer is on its way."""
    attack = {"name": "surrogate", "student": "mlp:16", "recipe": {"steps": 4000, "batch": 32}}
    return {
        "name": "grid",
        "victim": {"source": victim, "remote": {"rps": 200.0, "rows": 16}},
        "attacks": [attack],
        "views": ["probs", "labels"],
        "seeds": list(range(CELLS // 2)),
        "budget": BUDGET,
        "stops": [BUDGET],
        "detectors": [],
    }


@contextmanager
def process(*command: str, **more: Any) -> Iterator[subprocess.Popen[str]]:
    """In a group of its own, which ends with the block."""
    with subprocess.Popen(command, env=ENV, text=True, start_new_session=True, **more) as running:
        try:
            yield running
        finally:
            kill_group(running.pid)


def kill_group(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


@contextmanager
def node(*options: str) -> Iterator[subprocess.Popen[str]]:
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    start = ("-c", "import sys; from ray.scripts.scripts import main; sys.exit(main())", "start", "--block")
    small = ("--num-cpus=1", "--node-ip-address=127.0.0.1", "--disable-usage-stats")
    with process(sys.executable, *start, *small, *options, **quiet) as running:
        yield running


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short: Ray's sockets lie in it."""
    with tempfile.TemporaryDirectory(prefix="lm", ignore_cleanup_errors=True) as name:
        yield Path(name)
        wait(lambda: not members(name), 60)


def members(text: str) -> list[int]:
    """Processes that have `text` on their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if text in path.read_text():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def wait(condition: Callable[[], Any], seconds: float = 100) -> Any:
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)
    return found


@contextmanager
def serving() -> Iterator[str]:
    with process(sys.executable, str(SERVER), stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"


def seen(server: str, model: str) -> dict[str, int]:
    with urllib.request.urlopen(f"{server}/seen/{model}", timeout=10) as answer:
        counts: dict[str, int] = json.loads(answer.read())
    return counts


@contextmanager
def audit(folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = (sys.executable, "-m", "leakmeter", "audit", *options)
    with (folder / "log").open("a") as log, process(*command, stdout=log, stderr=log, cwd=folder) as running:
        yield running


def training(run: Path) -> Iterator[tuple[Path, int]]:
    """Cells that have just heard all their answers, and the process of each."""
    for answers in run.glob("cells/*/answers/answers.bin"):
        cell, state = answers.parents[1], answers.stat()
        starts = re.findall(r"process (\d+)", (cell / "log.txt").read_text())
        new = state.st_size > 0 and time.time() - state.st_mtime < 0.5 and spent(cell) == BUDGET
        if new and starts and Path(f"/proc/{starts[-1]}").exists():
            yield cell, int(starts[-1])


def spent(cell: Path) -> int:
    with closing(sqlite3.connect(f"file:{cell / 'ledger.sqlite'}?mode=ro", uri=True, timeout=60)) as ledger:
        try:
            return int(ledger.execute("SELECT queries FROM accounts WHERE name = 'attack'").fetchone()[0])
        except sqlite3.OperationalError:  # not yet made
            return 0


def done(run: Path) -> int:
    return len(list(run.glob("cells/*/cell.json")))


def weights(run: Path) -> dict[str, dict[str, torch.Tensor]]:
    found = sorted(run.glob("cells/*/substitute.safetensors"))
    return {path.parent.name: safetensors.torch.load(path.read_bytes()) for path in found}


def test_deaths_cost_no_answer_and_change_no_result(folder: Path) -> None:
    with serving() as server:
        (folder / "calm.toml").write_text(tomli_w.dumps(plan(f"{server}/v2/models/well-1")))
        (folder / "storm.toml").write_text(tomli_w.dumps(plan(f"{server}/v2/models/well-2")))
        with audit(folder, "calm.toml", "--executor", "local:2", "--out", "calm") as calm:
            wait(lambda: calm.poll() is not None, 200)
        head = ("--head", "--port=0", "--include-dashboard=false", f"--temp-dir={folder / 'ray'}")
        with node(*head) as first:
            where = folder / "ray" / "ray_current_cluster"
            address = wait(lambda: where.exists() and where.read_text().strip(), 90)
            with node(f"--address={address}") as second:
                try:
                    storm(folder, address, second)
                except AssertionError as error:
                    raise AssertionError((folder / "log").read_text()) from error
            kill_group(first.pid)
        assert calm.returncode == 0
        compare(folder, server)


def storm(folder: Path, address: str, second: subprocess.Popen[str]) -> None:
    """A worker dies, then a node with its worker, then the driver; then the audit is resumed and finishes."""
    on_ray = ("--executor", f"ray:{address}", "--out", "storm")
    with audit(folder, "storm.toml", *on_ray) as driver:
        run = wait(lambda: next(folder.glob("storm/*"), None))
        _, worker = wait(lambda: next(training(run), None))
        os.kill(worker, signal.SIGKILL)
        raylets = {raylet for raylet in members("raylet/raylet") if os.getpgid(raylet) == second.pid}
        assert len(raylets) == 1
        wait(lambda: done(run) > 1 and any(parent(pid) in raylets for _, pid in training(run)))
        kill_group(second.pid)
        already = done(run)
        wait(lambda: done(run) > already and next(training(run), None))
        assert driver.poll() is None
    finished = done(run)
    with audit(folder, "storm.toml", *on_ray, "--resume", str(run)) as driver:
        wait(lambda: driver.poll() is not None, 200)
    assert f"{finished} of {CELLS} cells are finished already" in (folder / "log").read_text()
    assert driver.returncode == 0


def compare(folder: Path, server: str) -> None:
    calm, storm = next(folder.glob("calm/*")), next(folder.glob("storm/*"))
    results = [json.loads((run / "results.json").read_text())["cells"] for run in (calm, storm)]
    assert [len(cells) for cells in results] == [CELLS, CELLS], (folder / "log").read_text()
    for one, other in zip(*results, strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}
    one, other = weights(calm), weights(storm)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[cell][name], other[cell][name]) for cell in one for name in one[cell])
    for model, cells in zip(("well-1", "well-2"), results, strict=True):
        counted = sum(cell["spending"]["queries"] + cell["spending"]["evaluation"] for cell in cells)
        assert seen(server, model)["rows"] == counted == CELLS * BUDGET
        assert seen(server, model)["at_once"] <= 4
    starts = [len(re.findall("start", (cell / "log.txt").read_text())) for cell in storm.glob("cells/*")]
    assert sum(starts) >= CELLS + 2  # a worker's, a node's and perhaps the driver's
