"""Where a bench leaves its figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from leakmeter.studies.provenance import commit, fingerprint

FOLDER = Path("results/bench")
ABOUT = {"commit": commit(), "code": fingerprint()}
"""The code as it is when a bench starts: it may change while one runs for an hour."""


def kept(name: str, command: str) -> dict[str, Any] | None:
    """What the same command of the same code has left, to go on from; None: nothing."""
    path = FOLDER / f"{name}.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found if (found.get("code"), found.get("command")) == (ABOUT["code"], command) else None


def keep(name: str, record: dict[str, Any], *, show: bool = True) -> None:
    """Shows the record, if wanted, and writes it, with the code that measured it, to results/bench/<name>.json."""
    text = json.dumps(ABOUT | record, indent=1)
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.json").write_text(text + "\n")
    if show:
        print(text)
