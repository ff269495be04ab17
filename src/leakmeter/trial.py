"""A file given to a parser that others wrote, first in a process of its own whose memory and time are limited.

What such a parser does with damaged bytes is not known: it may take gigabytes, never end, or crash. Here that ends the
other process, and is a sentence in this one.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from leakmeter.errors import UsageError
from leakmeter.files import LIMIT_VARIABLE, most_bytes

SECONDS = 60.0


def tried(module: str, path: Path, *more: str, seconds: float = SECONDS) -> None:
    """Runs a module, which ends in `limited`, on the file; UsageError unless it ends well and in time."""
    limit = most_bytes() + 4 * path.stat().st_size
    command = [sys.executable, "-m", module, str(limit), str(path), *more]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
    try:
        ended = subprocess.run(command, capture_output=True, timeout=seconds, env=environment, check=False)
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"{path} could not be opened within {seconds:.0f} s") from error
    if ended.returncode == 0:
        return
    said = ended.stdout.decode(errors="replace").strip()
    if ended.returncode < 0 or not said:
        said = f"opening it ended a process with code {ended.returncode}"
    raise UsageError(f"{path} cannot be used: {said}; if it needs more memory and you trust it, raise {LIMIT_VARIABLE}")


def limited(use: Callable[..., None]) -> None:
    """The other process: calls `use` with the arguments of the command line behind the limit."""
    _limit_memory(int(sys.argv[1]))
    try:
        use(*sys.argv[2:])
    except MemoryError:
        print("it needs more memory than it may have")  # noqa: T201
        sys.exit(1)
    except BaseException as error:  # a panic of a library in Rust is no Exception
        print(" ".join(str(error).split())[:300] or type(error).__name__)  # noqa: T201
        sys.exit(1)


def _limit_memory(more: int) -> None:
    """Lets this process take so many bytes more than it has now."""
    status = Path("/proc/self/status")
    if not status.exists():  # the limit is Linux's
        return
    now = next(int(line.split()[1]) << 10 for line in status.read_text().splitlines() if line.startswith("VmData"))
    resource.setrlimit(resource.RLIMIT_DATA, (now + more, now + more))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
