"""Files with changed bytes: does each end in a sentence or an answer, in little time and memory?

    python tests/hostile/fuzz.py --times 10000 --out results/hostile.json

The files are read in another process, so that one that crashes it is found and the next one is tried.
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import json
import logging
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import time
import warnings
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from leakmeter import trial
from leakmeter.errors import LeakmeterError, UsageError

SLOW, LARGE = 5.0, 1 << 30


@dataclass
class Found:
    """What became of the changed files of one format."""

    mutations: int = 0
    read: int = 0
    refused: int = 0
    tracebacks: int = 0
    crashes: int = 0
    slowest: float = 0.0
    """Seconds of computing."""
    largest: int = 0
    """Bytes of memory that one file took, at most."""
    faults: list[str] = field(default_factory=list)

    @property
    def fine(self) -> bool:
        """Whether nothing broke."""
        return self.tracebacks + self.crashes == 0 and self.slowest < SLOW and self.largest < LARGE


def fuzz(formats: list[str], times: int, seed: int, folder: Path) -> dict[str, Found]:
    """Changes a file of each format so many times; a process that dies is replaced by one that goes on."""
    state = folder / "state.json"
    state.write_text("{}")
    while True:
        command = [sys.executable, __file__, "--child", str(folder), "--times", str(times), "--seed", str(seed)]
        ended = subprocess.run([*command, "--formats", *formats], capture_output=True, text=True, check=False)
        kept = json.loads(state.read_text())
        found = {name: Found(**kept["found"][name]) for name in kept.get("found", {})}
        if ended.returncode == 0:
            return found
        if "at" not in kept:
            raise RuntimeError(ended.stderr[-2000:])
        broken = found[kept["at"]]
        broken.mutations += 1
        broken.crashes += 1
        broken.faults.append(f"{broken.mutations - 1}: ended with code {ended.returncode}")
        state.write_text(json.dumps({"found": {name: asdict(each) for name, each in found.items()}}))


def child(formats: list[str], times: int, seed: int, folder: Path) -> None:
    """Goes on where the last process ended."""
    from formats import FORMATS

    from leakmeter.data import table
    from leakmeter.victims import onnx_check, trees

    for user in (onnx_check, trees, table):
        user.tried = _forked  # type: ignore[attr-defined]
    SERVER.set_forkserver_preload(["leakmeter.trial", "polars", "onnxruntime", "catboost", *USES])
    warnings.simplefilter("ignore")
    logging.disable()
    state = folder / "state.json"
    kept = json.loads(state.read_text()).get("found", {})
    found = {name: Found(**kept.get(name, {})) for name in formats}
    descriptor = os.open(state, os.O_RDWR)

    def keep(**more: str) -> None:
        text = json.dumps({"found": {each: asdict(found[each]) for each in found}} | more).encode()
        os.pwrite(descriptor, text, 0)
        os.ftruncate(descriptor, len(text))

    for name in formats:
        form, one = FORMATS[name], found[name]
        sound = folder / f"sound{form.suffix}"
        if not sound.exists():
            form.make(sound)
        content = sound.read_bytes()
        form.read(_placed(folder, form.suffix, content))
        while one.mutations < times:
            keep(at=name)  # before the file is read: the next process skips it
            changed = form.change(content, random.Random(f"{seed} {name} {one.mutations}"))
            _try(form.read, _placed(folder, form.suffix, changed), one)
        sound.unlink()
    keep()


def _placed(folder: Path, suffix: str, content: bytes) -> Path:
    """The content in a file that lies alone in its folder."""
    path = folder / "changed" / f"file{suffix}"
    path.parent.mkdir(exist_ok=True)
    for old in path.parent.iterdir():
        old.unlink()
    path.write_bytes(content)
    return path


def _forked(module: str, path: Path, *more: str, seconds: float = trial.SECONDS) -> None:
    """What `trial.tried` does, in a fork: ten thousand new processes would only import the same libraries again.

    Forked from a process that only imported them: threads that a library has begun do not survive a fork.
    """
    said = path.with_suffix(".said")
    said.touch()
    process = SERVER.Process(target=_limited, args=(module, str(said), str(trial.most_bytes()), str(path), *more))
    process.start()
    process.join(seconds)
    if process.exitcode is None:
        process.kill()
        process.join()
    with suppress(OSError, ValueError):  # one that crashed left nothing
        CHILD.seconds, CHILD.bytes = json.loads(path.with_suffix(".spent").read_text())
    if process.exitcode:
        raise UsageError(f"ended with {process.exitcode}: {said.read_text()}")


def _limited(module: str, said: str, *arguments: str) -> None:
    os.dup2(os.open(said, os.O_WRONLY), 1)
    sys.argv = [module, *arguments]
    before = _memory(reset=True)
    try:
        trial.limited(getattr(importlib.import_module(module), USES[module]))
    finally:
        spent = [sum(os.times()[:2]), _memory() - before]
        Path(said).with_suffix(".spent").write_text(json.dumps(spent))


@dataclass
class Child:
    """What the last of the other processes took."""

    seconds: float = 0.0
    bytes: int = 0


CHILD = Child()
SERVER = multiprocessing.get_context("forkserver")
USES = {
    "leakmeter.victims.onnx_trial": "attempt",
    "leakmeter.victims.catboost_trial": "export",
    "leakmeter.data.parquet_trial": "attempt",
}


def _try(read: object, path: Path, found: Found) -> None:
    faulthandler.dump_traceback_later(30, exit=True)  # counts as a crash
    before, start = _memory(reset=True), _seconds()
    CHILD.seconds, CHILD.bytes = 0.0, 0
    try:
        read(path)  # type: ignore[operator]
        found.read += 1
    except LeakmeterError:
        found.refused += 1
    except BaseException as error:
        found.tracebacks += 1
        found.faults.append(f"{found.mutations}: {error!r}"[:300])
    taken = _seconds() - start + CHILD.seconds
    found.slowest = max(found.slowest, round(taken, 3))
    found.largest = max(found.largest, _memory() - before, CHILD.bytes)
    if taken > SLOW:
        found.faults.append(f"{found.mutations}: took {taken:.1f} s")
    found.mutations += 1


def _seconds() -> float:
    """Of computing, by this process: what else the machine does is no fault of a file."""
    return sum(os.times()[:2])


def _memory(*, reset: bool = False) -> int:
    """The most memory this process has had since the last reset."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))


def main() -> None:
    """Writes what was found beside the command that found it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--formats", nargs="*")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--child", type=Path)
    asked = parser.parse_args()
    if asked.child is not None:
        child(asked.formats, asked.times, asked.seed, asked.child)
        return
    from formats import FORMATS
    from storm import commit, note

    tried, start = commit(), time.monotonic()
    for name in asked.formats or list(FORMATS):
        with tempfile.TemporaryDirectory() as folder:
            found = fuzz([name], asked.times, asked.seed, Path(folder))[name]
        about = {"command": f"python tests/hostile/fuzz.py --times {asked.times} --seed {asked.seed}", "commit": tried}
        note(asked.out, f"file: {name}", about | asdict(found) | {"seconds": round(time.monotonic() - start)})
        start = time.monotonic()


if __name__ == "__main__":
    main()
