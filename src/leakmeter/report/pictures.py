"""Pictures lying in a run folder, for a report that is one file: each once, none too large."""

from __future__ import annotations

import base64
import hashlib
import io
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image

from leakmeter.report.words import surface
from leakmeter.results import AuditResult, CellResult
from leakmeter.verdict import arm_label

_MOST = 12
_BYTES = 120_000
"""A picture larger than this is halved until it is not; twelve of them stay under two megabytes as base64."""
_READ = 40_000_000
_PNG = b"\x89PNG\r\n\x1a\n"


@dataclass
class Picture:
    """One PNG and every arm it belongs to."""

    source: str
    arms: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Gallery:
    """The pictures shown, and how many more there are in the run folder."""

    shown: list[Picture]
    left_out: int


def gallery(result: AuditResult, folder: Path, name: str) -> Gallery:
    """The first picture called `name` of every arm; arms with the same picture share it."""
    found: dict[str, Picture] = {}
    seen: set[str] = set()
    left_out = 0
    for cell in result.cells:
        arm = f"{arm_label(cell)}, seeing {surface(cell.view, cell.defense)}"
        content = b"" if arm in seen else _read(cell, folder, name)
        if not content:
            continue
        seen.add(arm)
        digest = hashlib.sha256(content).hexdigest()
        if digest not in found and len(found) == _MOST:
            left_out += 1
            continue
        if digest not in found:
            found[digest] = Picture(f"data:image/png;base64,{base64.b64encode(_shrunk(content)).decode()}")
        found[digest].arms.append(arm)
    return Gallery(list(found.values()), left_out)


def _read(cell: CellResult, folder: Path, name: str) -> bytes:
    """The file, or nothing: a run need not have pictures, and an id is never a way out of the folder."""
    if cell.id != Path(cell.id).name:
        return b""
    place = folder / "cells" / cell.id / name
    if not place.is_file() or place.stat().st_size > _READ:
        return b""
    content = place.read_bytes()
    return content if _is_png(content) else b""


def _is_png(content: bytes) -> bool:
    if not content.startswith(_PNG):
        return False
    try:
        with Image.open(io.BytesIO(content)) as picture:
            picture.verify()
    except (OSError, SyntaxError, Image.DecompressionBombError):
        return False
    return True


def _shrunk(content: bytes) -> bytes:
    while len(content) > _BYTES:
        with Image.open(io.BytesIO(content)) as picture:
            smaller = picture.convert("RGB" if picture.mode not in ("L", "RGB") else picture.mode).reduce(2)
        buffer = io.BytesIO()
        smaller.save(buffer, "PNG", optimize=True)
        content = buffer.getvalue()
    return content
