"""A run directory on its way between machines that share no folder: in pieces, and never half arrived.

What is packed while a job works is what a kill at that moment would have left: checkpoints are copied before the
answers, and answers before the ledger, so that nothing in the copy refers to what is not in it.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

Piece = tuple[str, bytes]
"""A file's path within the folder, and what comes next in it."""
_SIZE = 4 << 20
_TRIES = 3
_LEDGER = "ledger.sqlite"


def pieces(folder: Path, names: tuple[str, ...] | None = None) -> Iterator[Piece]:
    """The files of a folder nobody writes to, or those named, a few megabytes at a time."""
    paths = _files(folder) if names is None else [folder / name for name in names]
    for path in paths:
        name = path.relative_to(folder).as_posix()
        with path.open("rb") as file:
            yield name, file.read(_SIZE)
            while more := file.read(_SIZE):
                yield name, more


def snapshot(folder: Path) -> Iterator[Piece]:
    """The pieces of a folder that a job may be writing to, as it was at one moment; none if it never held still."""
    with tempfile.TemporaryDirectory(prefix="leakmeter-") as name:
        for attempt in range(_TRIES):
            copy = Path(name) / str(attempt)
            if _copy(folder, copy):
                yield from pieces(copy)
                return
            shutil.rmtree(copy, ignore_errors=True)


def _copy(folder: Path, copy: Path) -> bool:
    """Copies the folder; False: a checkpoint was written meanwhile, so the copy may not hang together."""
    before = _stamps(folder)
    try:
        for path in _files(folder):
            place = copy / path.relative_to(folder)
            place.parent.mkdir(parents=True, exist_ok=True)
            if path.name == _LEDGER:
                _copy_ledger(path, place)
            else:
                shutil.copyfile(path, place)
    except FileNotFoundError:
        return False
    return _stamps(folder) == before


class ReplacedFolder:
    """Pieces on their way into `folder`: it changes all at once, when `finish` is called."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._draft, self._old = folder, _beside(folder, "arriving"), _beside(folder, "leaving")
        shutil.rmtree(self._draft, ignore_errors=True)
        self._draft.mkdir(parents=True)

    def add(self, piece: Piece) -> None:
        """Appends a piece."""
        name, content = piece
        path = self._draft / name
        if not path.resolve().is_relative_to(self._draft.resolve()):
            raise ValueError(f"what is sent must stay in its folder, and '{name}' does not")
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(content)

    def finish(self) -> None:
        """All that was added takes the folder's place."""
        shutil.rmtree(self._old, ignore_errors=True)
        if self._folder.exists():
            self._folder.rename(self._old)
        self._draft.rename(self._folder)
        shutil.rmtree(self._old, ignore_errors=True)


def undo_half_replaced(folder: Path) -> None:
    """Puts right what a process left that was killed while it replaced the folder."""
    old = _beside(folder, "leaving")
    if old.exists() and not folder.exists():
        old.rename(folder)
    for rest in (old, _beside(folder, "arriving")):
        shutil.rmtree(rest, ignore_errors=True)


def _beside(folder: Path, what: str) -> Path:
    return folder.with_name(f".{folder.name}.{what}")


def _files(folder: Path) -> list[Path]:
    """Checkpoints first, the ledger last; no locks, drafts or parts of an open database."""
    found = [path for path in folder.rglob("*") if path.is_file() and not _passing(path)]
    order = {"checkpoint": 0, "answers": 2}
    return sorted(found, key=lambda path: (path.name == _LEDGER, order.get(path.parent.name, 1), path))


def _passing(path: Path) -> bool:
    return path.name == "lock" or path.name.startswith(".") or path.name.endswith(("-wal", "-shm"))


def _stamps(folder: Path) -> list[tuple[Path, int]]:
    return [(path, path.stat().st_mtime_ns) for path in sorted((folder / "checkpoint").glob("*.pt")) if path.exists()]


def _copy_ledger(path: Path, place: Path) -> None:
    """Through SQLite: part of an open database lies beside it."""
    with closing(sqlite3.connect(path, timeout=60)) as source, closing(sqlite3.connect(place)) as target:
        source.backup(target)
