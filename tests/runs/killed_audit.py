"""An audit that kills itself: run in a process of its own by test_kill.py, with `folder`, `moment` and `resume` set."""

import os
import signal
from pathlib import Path

import torch
from torch import nn

import leakmeter as lm
from leakmeter.checkpoint import DiskCheckpoint
from leakmeter.evaluation.score import Reference
from leakmeter.oracle.ledger import Ledger
from leakmeter.oracle.log import AnswerLog

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


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def run_audit(folder: Path, resume: Path | None = None) -> None:
    victim = lm.load_victim(CountingNet(folder / "bill"), input_shape=(1, 8, 8), low=0.0, high=1.0)
    lm.audit(PLAN, victim=victim, out=folder / "runs", resume=resume)


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


def main(folder: Path, moment: str | None, resume: Path | None) -> None:
    if moment is not None:
        owner, name, wrap = MOMENTS[moment]
        DiskCheckpoint.due = lambda _: True  # a checkpoint at every step
        setattr(owner, name, wrap(getattr(owner, name)))
    run_audit(folder, resume)


if __name__ == "__main__":
    main(folder, moment, resume)  # noqa: F821  (set by runpy)
