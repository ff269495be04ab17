"""Which code measured a figure: the commit, and a fingerprint of every file that a measurement runs through."""

from __future__ import annotations

import hashlib
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SHOWN = {
    *("report", "commands", "serve", "runs", "executors", "_audit", "verdict"),
    *("__main__", "cli", "demo", "display", "plan", "progress", "results", "settings", "shown"),
}
"""Rooms, and modules beside them, that only show, ask or schedule: they change no figure of a study."""


@cache
def fingerprint() -> str:
    """Of the code as it runs, committed or not."""
    digest = hashlib.sha256()
    for path in sorted(ROOT.rglob("*.py")):
        place = path.relative_to(ROOT)
        if place.parts[0].removesuffix(".py") not in SHOWN:
            digest.update(f"{place.as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


@cache
def commit() -> str | None:
    """The commit it was checked out from, with a plus where files have changed since; None: no checkout."""
    try:
        head, changes = (_git(*words) for words in (("rev-parse", "HEAD"), ("status", "--porcelain", "--", str(ROOT))))
    except (OSError, subprocess.CalledProcessError):
        return None
    return head + ("+" if changes else "")


def _git(*words: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True).stdout.strip()
