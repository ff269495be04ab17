"""A node agent that dies ends the driver with a sentence, and an end on purpose with none."""

from __future__ import annotations

import subprocess
import sys

import pytest

DRIVER = """
import os, signal, subprocess, sys, time
from pathlib import Path
from leakmeter.executors.ray_agent import watched_agent
agent = subprocess.Popen(["{place}/raylet", "60"])
time.sleep(0.3)
with watched_agent():
    if sys.argv[1] == "dies":
        os.kill(agent.pid, signal.SIGKILL)
        time.sleep(30)
agent.kill()
time.sleep(1)
"""


@pytest.mark.parametrize(("how", "code"), [("dies", 4), ("ends", 0)])
def test_the_death_of_an_agent_is_told(tmp_path, how: str, code: int) -> None:
    (tmp_path / "raylet").symlink_to("/bin/sleep")
    command = [sys.executable, "-c", DRIVER.format(place=tmp_path), how]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == code
    assert ("go on with --resume" in ended.stderr) == (how == "dies")
