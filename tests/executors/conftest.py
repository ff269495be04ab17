"""A shop with a model of its own, and a Ray cluster of this machine that all tests share."""

import os
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

NET = """
import os
import signal
from pathlib import Path

import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))

    def forward(self, x):
        if len(x) > 4 and os.path.exists("die-once") and str(os.getpid()) != Path("driver").read_text():
            os.rename("die-once", "died")
            os.kill(os.getpid(), signal.SIGKILL)
        return self.net(x)
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "driver").write_text(str(os.getpid()))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def cluster() -> Iterator[None]:
    ray = pytest.importorskip("ray")
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    own = {"RAY_AUTH_TOKEN": secrets.token_hex(32)}  # else Ray keeps one in the home folder
    brief = tempfile.TemporaryDirectory(prefix="lm", ignore_cleanup_errors=True)  # Ray's sockets need a short path
    with brief as folder, pytest.MonkeyPatch.context() as environment:
        for name, value in (quiet | own | {"TMPDIR": folder}).items():  # what killed workers leave goes with it
            environment.setenv(name, value)
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="critical", _temp_dir=folder)
        yield
        ray.shutdown()
