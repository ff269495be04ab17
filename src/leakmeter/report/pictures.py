"""Pictures lying in a run folder, for a report that is one file: each once, none too large."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

from PIL import Image

from leakmeter.report.blocks import Block, Paragraph, Picture
from leakmeter.report.words import surface_words
from leakmeter.results import AuditResult, CellResult
from leakmeter.verdict import arm_label

_MOST = 12
_BYTES = 120_000
"""A picture larger than this is halved until it is not; twelve of them stay under two megabytes as base64."""
_READ = 40_000_000
_PNG = b"\x89PNG\r\n\x1a\n"


def gallery(result: AuditResult, folder: Path, name: str, alt: str) -> list[Block]:
    """The first picture called `name` of every arm; arms with the same picture share it."""
    found: dict[str, tuple[Path, bytes, list[str]]] = {}
    seen: set[str] = set()
    left_out = 0
    for cell in result.cells:
        arm = f"{arm_label(cell)}, seeing {surface_words(cell.view, cell.defense)}"
        path, content = (None, b"") if arm in seen else _read(cell, folder, name)
        if path is None:
            continue
        seen.add(arm)
        digest = hashlib.sha256(content).hexdigest()
        if digest not in found and len(found) == _MOST:
            left_out += 1
            continue
        found.setdefault(digest, (path, _shrunk(content), []))[2].append(arm)
    pictures: list[Block] = [
        Picture("; ".join(arms), f"{alt}: {'; '.join(arms)}", content, path.relative_to(folder).as_posix())
        for path, content, arms in found.values()
    ]
    return pictures + [Paragraph(f"{left_out} more are in the run folder.", muted=True)] * bool(left_out)


def _read(cell: CellResult, folder: Path, name: str) -> tuple[Path | None, bytes]:
    """The file, or nothing: a run need not have pictures, and an id is never a way out of the folder."""
    place = folder / "cells" / cell.id / name
    if cell.id != Path(cell.id).name or not place.is_file() or place.stat().st_size > _READ:
        return None, b""
    content = place.read_bytes()
    return (place, content) if _is_png(content) else (None, b"")


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
