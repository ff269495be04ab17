"""`leakmeter ls`: the runs in a folder, one line each, broken ones said to be so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from leakmeter.errors import UsageError


def list_runs(out: Path) -> Iterator[str]:
    """A line for every run directory, oldest first."""
    if not out.is_dir():
        raise UsageError(f"there is no folder {out}; runs are written there by audit, extract and demo")
    found = sorted(path.parent for path in out.glob("*/plan.toml"))
    if not found:
        yield f"no runs in {out}"
    for path in found:
        yield f"{path.name:44} {_state(path)}"


def _state(path: Path) -> str:
    results = path / "results.json"
    if not results.exists():
        done = len(list(path.glob("cells/*/cell.json")))
        return f"unfinished ({done} cells done; go on with --resume {path})"
    try:
        verdict = json.loads(results.read_text())["verdict"]
        return f"{verdict['outcome']:10} {verdict['headline']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "results.json cannot be read"
