"""What results/ already holds of a study: how many seeds, and how long they took."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from leakmeter.errors import UsageError


def held(name: str, results: Path = Path("results")) -> str:
    """In a few words, from the study's JSON, and from those of its parts in folders beside it."""
    beside = sorted(results.glob(f"{name}-*/{name}.json"))
    told = [_held(path) for path in (_place(name, results), *beside) if path.exists()]
    return " + ".join(told) or "not in results"


def _held(path: Path) -> str:
    try:
        found: dict[str, Any] = json.loads(path.read_text())
        cells = found["cells"]
        return f"{_seeds(found)}, {_took(found, cells)}"
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise UsageError(f"{path} is not the record of a study; move it away to start anew") from error


def content(name: str, results: Path = Path("results")) -> dict[str, Any]:
    """The study's JSON."""
    path = _place(name, results)
    if not path.exists():
        raise UsageError(f"there is no {path}; run: leakmeter study {name}")
    held(name, results)  # says what is wrong with a file that is no record
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def _place(name: str, results: Path) -> Path:
    return results / name / f"{name}.json"


def _seeds(found: dict[str, Any]) -> str:
    """By the command that made it, or by the cells if it was stopped before all were done."""
    asked = re.search(r"--seeds (\d+)", found["command"])
    done = len({match for key in found["cells"] for match in re.findall(r"seed ?(\d+)$", key)})
    number = min(int(asked.group(1)), done or int(asked.group(1))) if asked else 1
    return f"{number} seed{'' if number == 1 else 's'}"


def _took(found: dict[str, Any], cells: dict[str, Any]) -> str:
    """The time of all its cells; of older records the time of their extractions."""
    known = [cell["seconds"] for cell in cells.values() if isinstance(cell, dict) and "seconds" in cell]
    seconds = found.get("seconds") or sum(known)
    if not seconds:
        return "time not recorded"
    return f"{seconds / 60:.0f} min" if seconds >= 60 else f"{seconds:.0f} s"
