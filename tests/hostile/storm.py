"""Runs against a hostile server, killed again and again: is every row counted, none too many, and every run finished?

    python tests/hostile/storm.py --runs 300 --out results/hostile.json

Each run is an extraction in a process of its own that is killed once the server has seen a random number of its rows,
resumed and killed again, and at last left alone. The server misbehaves in one way on three requests of ten.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from hostile_server import BEHAVIOURS, HostileServer

from leakmeter.checkpoint import DiskCheckpoint
from leakmeter.errors import LeakmeterError
from leakmeter.extraction.base import extract
from leakmeter.oracle.ledger import recorded
from leakmeter.oracle.oracle import Oracle
from leakmeter.runs.run import LEDGER, Run
from leakmeter.victims.load import load_victim

BUDGET = 200
ATTEMPTS = 40
REMOTE = {"timeout": 0.3, "retries": 8, "rows": 8, "concurrency": 2, "patience": 5}
DONE, AGAIN = 0, 4


@dataclass
class Tally:
    """What a storm found."""

    runs: int = 0
    finished: int = 0
    kills: int = 0
    resumes: int = 0
    rows_seen: int = 0
    rows_counted: int = 0
    runs_with_uncounted_rows: int = 0
    runs_over_budget: int = 0


def attempt(address: str, folder: Path) -> None:
    """One process of a run: goes on with it and ends it, or is killed."""
    torch.set_num_threads(1)
    run = Run.enter(folder, {"storm": 1})
    try:
        with run.held(10.0):
            victim = load_victim(address, remote=REMOTE)
            ledger, log = run.ledger(BUDGET), run.answers()
            oracle = Oracle(victim, "probs", ledger=ledger, log=log)
            keep = lambda name: DiskCheckpoint(folder / "checkpoint" / f"{name}.pt")  # noqa: E731
            extract("surrogate", oracle, seed=0, stops=(64, BUDGET), checkpoints=keep, recipe={"steps": 20})
    except LeakmeterError:
        os._exit(AGAIN)
    os._exit(DONE)


def storm(
    runs: int,
    folder: Path,
    seed: int = 0,
    behaviours: tuple[str, ...] = tuple(BEHAVIOURS),
    told: Callable[[Tally], None] = lambda tally: None,
) -> Tally:
    """That many runs, over all behaviours in turn; `told` hears of what was found so far after each."""
    chance, tally = random.Random(seed), Tally()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["storm"])
    with HostileServer() as server:
        for number in range(runs):
            name = f"{behaviours[number % len(behaviours)]}-30"
            before, place = server.seen[name], folder / f"{number}"
            finished = _run(context, server, name, place, chance, tally)
            seen, counted = server.seen[name] - before, recorded(place / LEDGER).get("attack", 0)
            tally.runs += 1
            tally.finished += finished
            tally.rows_seen += seen
            tally.rows_counted += counted
            tally.runs_with_uncounted_rows += seen > counted
            tally.runs_over_budget += counted > BUDGET
            told(tally)
    return tally


def _run(context: Any, server: HostileServer, name: str, place: Path, chance: random.Random, tally: Tally) -> bool:
    kills = chance.randrange(1, 5)
    for number in range(ATTEMPTS):
        process = context.Process(target=attempt, args=(f"{server.address}/{name}", place))
        process.start()
        end, until = time.monotonic() + 120, server.seen[name] + chance.randrange(1, 80)
        while process.is_alive() and time.monotonic() < end and (number >= kills or server.seen[name] < until):
            time.sleep(0.001)
        time.sleep(chance.uniform(0.0, 0.02))
        if process.exitcode is None:
            os.kill(process.pid, signal.SIGKILL)
            process.join()
            tally.kills += 1
        elif process.exitcode == DONE:
            return True
        tally.resumes += 1
    return False


def note(path: Path | None, part: str, found: dict[str, Any]) -> None:
    """Prints what was found, or writes it under the name of its part, beside what others found."""
    if path is None:
        print(json.dumps({part: found}))  # noqa: T201
        return
    whole = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(whole | {part: found}, indent=2) + "\n")


def commit() -> str:
    """The commit that is tried."""
    return subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()


def main() -> None:
    """Writes what was found beside the command that found it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    start, tried = time.monotonic(), commit()

    def told(tally: Tally) -> None:
        found = {
            "command": f"python tests/hostile/storm.py --runs {asked.runs} --seed {asked.seed}",
            "commit": tried,
            "behaviours": min(len(BEHAVIOURS), tally.runs),
            **vars(tally),
            "seconds": round(time.monotonic() - start),
        }
        note(asked.out, "storm", found)

    with tempfile.TemporaryDirectory() as folder:
        storm(asked.runs, Path(folder), asked.seed, told=told)


if __name__ == "__main__":
    main()
