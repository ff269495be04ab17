"""The shapes of `CellResult.notes` that reports draw. A note of another shape is shown as it was recorded."""

from __future__ import annotations

import json
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from leakmeter.results import AuditResult, CellResult

N = TypeVar("N", bound=BaseModel)


def noted(result: AuditResult, key: str, kind: type[N]) -> tuple[list[tuple[CellResult, N]], list[str]]:
    """Every cell with its notes of that shape, and those of another shape as JSON."""
    read, other = [], []
    for cell in result.cells:
        note = cell.notes.get(key, [])
        for each in note if isinstance(note, list) else [note]:
            try:
                read.append((cell, kind.model_validate(each)))
            except ValidationError:
                other.append(f"{cell.id}: {json.dumps(each, ensure_ascii=False)}")
    return read, other
