"""A run really killed, at each of the moments that matter, must end as if nothing had happened."""

import multiprocessing
import runpy
import signal
from pathlib import Path

import pytest
import safetensors.torch
import torch

import leakmeter as lm
from leakmeter.oracle.ledger import Ledger

SCRIPT = Path(__file__).with_name("killed_audit.py")
MOMENTS = (
    "entered, not yet computed",
    "answered, not yet logged",
    "logged in half",
    "logged",
    "first student trained",
    "in the middle of the second student",
    "writing a checkpoint",
    "scoring",
)
PROBE = 4  # rows a victim is asked while it is loaded, once in each process

# A server that has everything imported and no threads forks the audits: quick, and safe whatever ran in this process.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    ["leakmeter._audit.flow", "leakmeter.report.svg", "leakmeter.report.html", "sklearn.datasets"]
)


def audited(folder: Path, moment: str | None = None, resume: Path | None = None) -> int | None:
    """Runs the audit in a process of its own; returns how that ended."""
    settings = {"folder": folder, "moment": moment, "resume": resume}
    process = PROCESSES.Process(target=runpy.run_path, args=(str(SCRIPT), settings, "__main__"))
    process.start()
    process.join(timeout=120)
    if process.is_alive():
        process.kill()
    return process.exitcode


def only_run(folder: Path) -> Path:
    (run,) = (folder / "runs").iterdir()
    return run


def weights(run: Path) -> dict[str, torch.Tensor]:
    return safetensors.torch.load((cell_of(run) / "substitute.safetensors").read_bytes())


def cell_of(run: Path) -> Path:
    (cell,) = (run / "cells").iterdir()
    return cell


def bill(folder: Path) -> int:
    """Rows the victim computed, in all processes together."""
    return sum(map(int, (folder / "bill").read_text().split()))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    assert audited(folder) == 0
    return folder


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_run_resumes_to_the_same_weights_and_bill(moment: str, undisturbed: Path, tmp_path: Path) -> None:
    assert audited(tmp_path, moment) == -signal.SIGKILL
    run = only_run(tmp_path)
    assert audited(tmp_path, resume=run) == 0

    expected, got = weights(only_run(undisturbed)), weights(run)
    assert expected.keys() == got.keys()
    assert all(torch.equal(expected[key], got[key]) for key in expected)
    cell = Ledger(cell_of(run) / "ledger.sqlite", budget=600)
    assert cell.spent("attack") == 600
    assert cell.spent("evaluation") == 32  # a few of the test inputs again
    assert Ledger(run / "ledger.sqlite").spent("evaluation") == 100
    # The victim lives in the killed process: what it computed and could not deliver is computed again, once.
    undelivered = {"answered, not yet logged", "logged in half"}
    extra = bill(tmp_path) - bill(undisturbed)
    assert extra == PROBE or (moment in undelivered and PROBE < extra <= PROBE + 256)


def test_resume_refuses_another_plan(undisturbed: Path, tmp_path: Path) -> None:
    script = runpy.run_path(str(SCRIPT))
    net = script["CountingNet"](tmp_path / "bill")
    victim = lm.load_victim(net, input_shape=(1, 8, 8), low=0.0, high=1.0)
    with pytest.raises(lm.UsageError, match=r"budget was 600 and is now 500.*start a new run"):
        lm.audit({**script["PLAN"], "budget": 500, "stops": [500]}, victim=victim, resume=only_run(undisturbed))
