"""A study's JSON: cells already there are not computed again; its command, commit and code stand inside.

Several processes may run one study into one folder: each adds its cells to what the others wrote.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from leakmeter.data.places import cache
from leakmeter.errors import UsageError
from leakmeter.files import write_atomic, writing
from leakmeter.runs.run import environment, locks
from leakmeter.studies.provenance import commit, fingerprint


class Record:
    """`<name>.json` in a folder, written anew after every cell."""

    def __init__(self, out: Path, name: str, command: str, about: dict[str, Any]) -> None:
        self.path, self._since = out / f"{name}.json", time.monotonic()
        self.content: dict[str, Any] = {
            "study": name,
            "command": command,
            **about,
            "commit": commit(),
            "code": fingerprint(),
            "environment": environment(),
            **self._kept(),
        }

    def cell(self, key: str, compute: Callable[[], Any]) -> Any:
        """The cell called `key`: from the file if it is there, else computed and written at once."""
        cells = self.content["cells"]
        if key not in cells:
            cells[key] = compute()
            self._save()
        return cells[key]

    def write(self, **facts: Any) -> dict[str, Any]:
        """Adds facts and writes the file; returns its content."""
        self.content.update(facts)
        self._save()
        return self.content

    @contextmanager
    def claimed(self, part: str) -> Iterator[bool]:
        """Whether no other process is at this part of the study; keeps others out of it for the `with` block."""
        with self._lock(part).open("w") as lock:
            yield locks(lock)

    def _save(self) -> None:
        """Writes what is here and what others have written, and how long that took since it was last saved."""
        with self._lock("writing").open("w") as lock:
            while not locks(lock):
                time.sleep(0.05)
            kept = self._kept()
            now = time.monotonic()
            self.content["seconds"] = round(kept["seconds"] + now - self._since, 1)
            self._since = now
            self.content["cells"].update({**kept["cells"], **self.content["cells"]})
            with writing(self.path):
                write_atomic(self.path, (json.dumps(self.content, indent=1) + "\n").encode())

    def _lock(self, part: str) -> Path:
        """A file in the user's cache, of this record and part."""
        name = hashlib.sha256(f"{self.path.resolve()} {part}".encode()).hexdigest()[:16]
        folder = cache() / "locks"
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        return folder / name

    def _kept(self) -> dict[str, Any]:
        """The cells already there, and the seconds that all of them took."""
        if not self.path.exists():
            return {"seconds": 0.0, "cells": {}}
        try:
            written = json.loads(self.path.read_text())
            kept: dict[str, Any] = written["cells"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{self.path} is not the record of a study; move it away to start anew") from error
        if kept and written.get("code") != fingerprint():
            raise UsageError(
                f"{self.path} was measured by other code (commit {written.get('commit', 'unknown')}), and cells of two "
                "kinds are not put together; move it away to start anew, or go on from that commit"
            )
        return {"seconds": written.get("seconds", 0.0), "cells": kept}
