"""Ray's agent of this machine: when it dies, Ray ends the driver's process without a word; so a word is said before."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from leakmeter.errors import Inconclusive

_SECONDS = 0.2


@contextmanager
def watched_agent() -> Iterator[None]:
    """Within the block the death of an agent that this process started ends it with a sentence and exit code 4."""
    done = threading.Event()
    for agent in _agents():
        threading.Thread(target=_watch, args=(agent, done), daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _agents() -> list[Path]:
    """The agents among the children of this process, where the system shows them."""
    found = []
    for children in Path("/proc/self/task").glob("*/children"):
        for child in children.read_text().split():
            with suppress(OSError):
                if Path(f"/proc/{child}/cmdline").read_bytes().partition(b"\0")[0].endswith(b"/raylet"):
                    found.append(Path(f"/proc/{child}"))
    return found


def _watch(agent: Path, done: threading.Event) -> None:
    while _lives(agent):
        if done.wait(_SECONDS):
            return
    time.sleep(_SECONDS)  # an end on purpose sets `done` about now
    if not done.is_set():
        os.write(2, b"leakmeter: Ray's agent on this machine died, and Ray with it; go on with --resume\n")
        os._exit(Inconclusive.exit_code)


def _lives(agent: Path) -> bool:
    try:
        return (agent / "stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (OSError, IndexError):
        return False
