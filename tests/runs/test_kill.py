"""A run really killed, at each of the moments that matter, must end as if nothing had happened."""

import os
import signal
import traceback
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import nn

import leakmeter as lm
from leakmeter.evaluation.score import Reference
from leakmeter.oracle.ledger import Ledger
from leakmeter.oracle.log import AnswerLog
from leakmeter.runs.checkpoint import DiskCheckpoint

PLAN = {
    "name": "kill",
    "victim": {"source": "unused"},
    "data": {"name": "digits", "limit": 100},
    "views": ["probs"],
    "budget": 600,
    "stops": [200, 600],
    "seeds": [0],
    "attacks": [{"name": "surrogate", "student": "mlp:16", "recipe": {"steps": 20, "batch": 32}}],
}

PROBE = 4  # rows a victim is asked while it is loaded, once in each process


class CountingNet(nn.Module):
    """Counts, in a file, every row it really answers: what a server would bill."""

    def __init__(self, bill: Path) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
        with torch.no_grad():
            self.net[1].weight.copy_(torch.linspace(-1, 1, 640).reshape(10, 64))
            self.net[1].bias.zero_()
        self.bill = bill

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with self.bill.open("a") as bill:
            bill.write(f"{len(x)}\n")
        return self.net(x)


def in_child(work) -> int:
    """Runs `work` in a forked process and returns the signal that ended it, 0 for a clean end."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(99)
    _, status = os.waitpid(pid, 0)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else -os.WEXITSTATUS(status)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def run_audit(folder: Path, resume: Path | None = None) -> None:
    victim = lm.load_victim(CountingNet(folder / "bill"), input_shape=(1, 8, 8), low=0.0, high=1.0)
    lm.audit(PLAN, victim=victim, out=folder / "runs", resume=resume)


def only_run(folder: Path) -> Path:
    (run,) = (folder / "runs").iterdir()
    return run


def weights(run: Path) -> dict[str, torch.Tensor]:
    return safetensors.torch.load((run / "substitute.safetensors").read_bytes())


def nth_call(n: int, before=None, after=None):
    """Wraps a method so that something happens around its n-th call."""

    def wrap(original):
        calls = 0

        def wrapped(*args, **kwargs):
            nonlocal calls
            calls += 1
            if calls == n and before:
                before(*args)
            result = original(*args, **kwargs)
            if calls == n and after:
                after()
            return result

        return wrapped

    return wrap


def torn_record(log: AnswerLog, ask: int, question: bytes, columns: dict[str, torch.Tensor]) -> None:
    """Half a record on disk, then death."""
    os.pwrite(log._file, b"LKM1" + bytes(40), log._end)
    die()


def torn_checkpoint(checkpoint: DiskCheckpoint, state: dict[str, object]) -> None:
    checkpoint._path.parent.mkdir(exist_ok=True)
    checkpoint._path.with_name(".draft").write_bytes(b"half")
    die()


MOMENTS = {
    "entered, not yet computed": (Ledger, "reserve", nth_call(2, after=die)),
    "answered, not yet logged": (AnswerLog, "append", nth_call(3, before=lambda *_: die())),
    "logged in half": (AnswerLog, "append", nth_call(2, before=torn_record)),
    "logged": (AnswerLog, "append", nth_call(3, after=die)),
    "first student trained": (DiskCheckpoint, "save", nth_call(1, after=die)),
    "in the middle of the second student": (DiskCheckpoint, "save", nth_call(30, after=die)),
    "writing a checkpoint": (DiskCheckpoint, "save", nth_call(12, before=torn_checkpoint)),
    "scoring": (Reference, "score", nth_call(2, before=lambda *_: die())),
}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run in this process: the children forked from it then find everything imported."""
    folder = tmp_path_factory.mktemp("undisturbed")
    run_audit(folder)
    return folder


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_run_resumes_to_the_same_weights_and_bill(
    moment: str, undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, name, wrap = MOMENTS[moment]

    def killed() -> None:
        monkeypatch.setattr(DiskCheckpoint, "due", lambda _: True)  # a checkpoint at every step
        monkeypatch.setattr(owner, name, wrap(getattr(owner, name)))
        run_audit(tmp_path)

    assert in_child(killed) == signal.SIGKILL
    run = only_run(tmp_path)
    assert in_child(lambda: run_audit(tmp_path, resume=run)) == 0

    expected, got = weights(only_run(undisturbed)), weights(run)
    assert expected.keys() == got.keys()
    assert all(torch.equal(expected[key], got[key]) for key in expected)
    ledger = Ledger(run / "ledger.sqlite", budget=600)
    assert ledger.spent("attack") == 600
    assert ledger.spent("evaluation") == 100 + 32  # the test inputs, and a few of them again
    # The victim lives in the killed process: what it computed and could not deliver is computed again, once.
    undelivered = {"answered, not yet logged", "logged in half"}
    extra = bill(tmp_path) - bill(undisturbed)
    assert extra == PROBE or (moment in undelivered and PROBE < extra <= PROBE + 256)


def bill(folder: Path) -> int:
    """Rows the victim computed, in all processes together."""
    return sum(map(int, (folder / "bill").read_text().split()))


def test_resume_refuses_another_plan(undisturbed: Path, tmp_path: Path) -> None:
    victim = lm.load_victim(CountingNet(tmp_path / "bill"), input_shape=(1, 8, 8), low=0.0, high=1.0)
    with pytest.raises(lm.UsageError, match=r"budget was 600 and is now 500.*start a new run"):
        lm.audit({**PLAN, "budget": 500, "stops": [500]}, victim=victim, resume=only_run(undisturbed))
