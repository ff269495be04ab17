"""A study's JSON: cells already there are not computed again; its command, commit and code stand inside."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from leakmeter.errors import UsageError
from leakmeter.files import write_atomic, writing
from leakmeter.runs.run import environment
from leakmeter.studies.provenance import commit, fingerprint


class Record:
    """`<name>.json` in a folder, written anew after every cell."""

    def __init__(self, out: Path, name: str, command: str, about: dict[str, Any]) -> None:
        self.path = out / f"{name}.json"
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
            start = time.monotonic()
            cells[key] = compute()
            self.write(seconds=round(self.content["seconds"] + time.monotonic() - start, 1))
        return cells[key]

    def write(self, **facts: Any) -> dict[str, Any]:
        """Adds facts and writes the file; returns its content."""
        self.content.update(facts)
        with writing(self.path):
            write_atomic(self.path, (json.dumps(self.content, indent=1) + "\n").encode())
        return self.content

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
