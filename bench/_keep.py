"""Where a bench leaves its figures."""

from __future__ import annotations

import json
from pathlib import Path

FOLDER = Path("results/bench")


def keep(name: str, record: object) -> None:
    """Shows the record and writes it to results/bench/<name>.json."""
    text = json.dumps(record, indent=1)
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.json").write_text(text + "\n")
    print(text)
