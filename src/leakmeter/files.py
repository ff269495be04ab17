"""Files that are never half written, and one sentence for a folder that cannot be written."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from leakmeter.errors import UsageError

LIMIT_VARIABLE = "LEAKMETER_MAX_BYTES"
_LIMIT = 1 << 30


def write_atomic(path: Path, content: bytes, *, lasting: bool = True) -> None:
    """Replaces a file in one step: a reader, or a kill, sees the old one or the new one.

    Not `lasting`: quicker, and a power cut may leave neither; for what can be computed again.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}")
    try:
        with draft.open("wb") as file:
            file.write(content)
            if lasting:
                file.flush()
                os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns a folder that cannot be written into a sentence."""
    try:
        yield
    except FileExistsError as error:
        raise UsageError(f"{path} exists already; choose another --out, or go on with --resume {path}") from error
    except OSError as error:
        raise UsageError(f"cannot write to {path}: {error.strerror}; choose another --out") from error


def has_content(path: Path) -> bool:
    """Whether there is such a file with something in it; False also where that cannot be seen."""
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def most_bytes() -> int:
    """The most that one input may take in memory: 1 GB, unless the environment says otherwise."""
    said = os.environ.get(LIMIT_VARIABLE, "")
    if said and not (said.isascii() and said.isdecimal()):
        raise UsageError(f"expected a number of bytes in {LIMIT_VARIABLE}, got {said!r}")
    return int(said[:18]) if said else _LIMIT


def check_announced(what: object, size: int) -> None:
    """Refuses what would take more than the limit, before anything is allocated for it."""
    if size > (limit := most_bytes()):
        raise UsageError(
            f"{what} would take {size:,} bytes, and the limit is {limit:,}; if you trust it, "
            f"set {LIMIT_VARIABLE}={size}"
        )
