"""The command line as a stranger meets it: real processes, exit codes, one sentence for a mistake."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from leakmeter.cli import main

SHOP = """
import torch
from torch import nn

def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))

def broken():
    raise ValueError("no weights here")

class Nan(nn.Module):
    def forward(self, x):
        out = x.flatten(1)[:, :10].clone()
        out[x.flatten(1).sum(1) != 0.0] += float("nan") if len(x) > 4 else 0.0
        return out

def nan():
    return Nan()
"""
FLAGS = ["--data", "digits", "--budget", "100", "--stops", "50"]
FLAGS += ["-S", "recipe.steps=20", "-S", "student=linear", "-S", "pool=procedural"]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(SHOP)
    return tmp_path


def leakmeter(*args: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error"}
    command = [sys.executable, "-m", "leakmeter", *map(str, args)]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=120, check=False)


def test_extract_writes_a_whole_run_and_ls_lists_it(shop: Path) -> None:
    done = leakmeter("extract", "surrogate", "--victim", "shop:net", *FLAGS, cwd=shop)
    assert done.returncode == 0, done.stderr
    (run,) = (shop / "runs").iterdir()
    names = {path.name for path in run.iterdir()}
    assert names >= {"plan.toml", "env.json", "ledger.sqlite", "answers", "results.json", "report.html", "cells"}
    (folder,) = (run / "cells").iterdir()
    kept = "plan.toml env.json ledger.sqlite answers substitute.safetensors cell.json log.txt"
    assert {path.name for path in folder.iterdir()} >= set(kept.split())
    assert f"substitute: {folder.relative_to(shop) / 'substitute.safetensors'}" in done.stdout
    result = json.loads((run / "results.json").read_text())
    (cell,) = result["cells"]
    assert [point["queries"] for point in cell["curve"]] == [50, 100]
    assert cell["spending"]["queries"] == 100
    listed = leakmeter("ls", cwd=shop)
    assert run.name in listed.stdout

    (run / "report.html").unlink()
    rebuilt = leakmeter("report", run, cwd=shop)
    assert rebuilt.returncode == 0
    assert (run / "report.html").exists()


@pytest.mark.parametrize(
    ("args", "code", "sentence"),
    [
        (["extract", "surogate", "--victim", "shop:net"], 2, "did you mean 'surrogate'"),
        (["extract", "surrogate", "--victim", "shop:broken"], 2, "raised ValueError: no weights here"),
        (["extract", "surrogate", "--victim", "shop:ne"], 2, "did you mean 'net'"),
        (["extract", "surrogate", "--victim", "shop:net"], 2, "pass input_shape"),
        (["extract", "surrogate", "--victim", "model.pkl"], 2, "pickle"),
        (["extract", "surrogate"], 2, "lacks 'victim"),
        (["extract", "surrogate", "--victim", "shop:net", "--data", "mnits"], 2, "did you mean 'mnist'"),
        (["extract", "surrogate", "--victim", "shop:net", "--view", "probs:x", "--data", "digits"], 2, "whole number"),
        (["extract", "surrogate", "--victim", "shop:net", "--data", "digits", "--device", "cuda"], 2, "--device cpu"),
        (["extract", "surrogate", "--victim", "shop:nan", *FLAGS], 4, "NaN"),
        (["audit", "none.toml"], 2, "there is no plan none.toml"),
        (["report", "nowhere"], 2, "there is no nowhere"),
        (["ls", "--out", "nowhere"], 2, "there is no folder nowhere"),
        (["frobnicate"], 2, "No such command"),
    ],
)
def test_mistakes_end_in_one_sentence(
    shop: Path, args: list[str], code: int, sentence: str, capsys: pytest.CaptureFixture[str], monkeypatch
) -> None:
    monkeypatch.chdir(shop)
    monkeypatch.setattr(sys, "argv", ["leakmeter", *args])
    with pytest.raises(SystemExit) as left:
        main()
    told = capsys.readouterr()
    assert left.value.code == code, told.err
    assert sentence in told.err + told.out
    assert "Traceback" not in told.err + told.out


def test_read_only_output_folder(shop: Path) -> None:
    (shop / "file").write_text("")
    done = leakmeter("extract", "surrogate", "--victim", "shop:net", *FLAGS, "--out", "file", cwd=shop)
    assert done.returncode == 2
    assert "choose another --out" in done.stderr
    assert "Traceback" not in done.stderr


def test_flags_override_environment_overrides_plan(shop: Path) -> None:
    (shop / "plan.toml").write_text(
        'budget = 40\nviews = ["labels"]\nseeds = [3]\n[victim]\nsource = "shop:net"\n[data]\nname = "digits"\n'
        '[[attacks]]\nname = "surrogate"\nstudent = "linear"\nrecipe = {steps = 5}\n'
    )
    env = {**os.environ, "OMP_NUM_THREADS": "1", "LEAKMETER_BUDGET": "60"}
    command = [sys.executable, "-m", "leakmeter", "audit", "plan.toml", "--view", "probs"]
    subprocess.run(command, cwd=shop, env=env, check=False, capture_output=True, timeout=120)
    (run,) = (shop / "runs").iterdir()
    plan = json.loads((run / "results.json").read_text())["plan"]
    assert (plan["budget"], plan["views"], plan["seeds"]) == (60, ["probs"], [3])


def test_help_does_not_load_torch() -> None:
    probe = (
        "import sys, leakmeter.cli; sys.exit(any(m in sys.modules for m in ('torch', 'scipy', 'matplotlib', 'numpy')))"
    )
    assert subprocess.run([sys.executable, "-c", probe], check=False).returncode == 0


@pytest.mark.parametrize("command", [["audit", "--victim", "none.onnx"], ["audit", "--resume", "none"], ["demo"]])
def test_the_first_line_of_an_audit_does_not_wait_for_torch(command: list[str], shop: Path) -> None:
    watched = (
        "import os, sys; from leakmeter import display; "
        "display.PlainDisplay.say = lambda self, line: os._exit(40 + ('torch' in sys.modules)); "
        f"sys.argv[1:] = {command}; from leakmeter.cli import main; main()"
    )
    assert subprocess.run([sys.executable, "-c", watched], cwd=shop, check=False).returncode == 40


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_whoever_stops_a_run_is_told_how_to_go_on(shop: Path, end: signal.Signals) -> None:
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    # Whoever runs the tests in the background may have told all children to ignore interrupts.
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    command = [sys.executable, "-c", f"{heed}from leakmeter.cli import main; main()"]
    command += ["extract", "surrogate", "--victim", "shop:net", "--data", "digits", "-S", "recipe.steps=1000000"]
    process = subprocess.Popen(command, cwd=shop, env=env, stderr=subprocess.PIPE)
    try:
        while not list(shop.glob("runs/*/cells/*/log.txt")):
            assert process.poll() is None
            time.sleep(0.1)
        time.sleep(0.5)
        process.send_signal(end)
        said = process.communicate(timeout=60)[1].decode()
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130
    assert re.search(r"asks nothing twice: leakmeter audit --resume runs/\S+-extract-surrogate\n", said)


def test_an_early_interrupt_is_one_line(shop: Path) -> None:
    (shop / "slow.py").write_text("import os, signal, time\nos.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(60)\n")
    stopped = leakmeter("audit", "--victim", "slow.py:model", "--input-shape", "3", cwd=shop)
    assert (stopped.returncode, stopped.stderr) == (130, "opening slow.py:model\nleakmeter: interrupted\n")
