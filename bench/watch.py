"""What `leakmeter watch` finds in made-up traffic with known truth, and what a large log costs it.

    OMP_NUM_THREADS=1 python bench/watch.py [--part thieves|nights|sybils|scan] [--seed 100]
        [--thieves 30] [--runs 4] [--rows 10000000]

1. `thieves`: many thieves (uniform points, `auto`, `surrogate`, `procedural`, with data and without; labels,
   probabilities, rounded ones, the best class; small and large budgets), each alone in a log: the fidelity that watch
   states against what the real attack got.
2. `nights`: 50 clients, one to five of them thieves (alone, slow, or with ten accounts), a log read night by night:
   the first alarm of every thief whose copy passes 80 %, the honest clients flagged, and who was looked at as one.
3. `sybils`: thirty accounts of three thieves (uniform points, `auto`, natural data) among forty honest clients: whose
   accounts are looked at as one because they ask alike. Copies are hardly trained here.
4. `scan`: a log of many rows, read and ranked: seconds and the peak of memory.

Victims: networks on 8×8 digits, trees on tables (`_watched.py`). Writes results/bench/watch-<part>.json.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from _keep import keep, kept
from _nights import nights, sybils
from _watched import VICTIMS, Watched

from leakmeter.traffic.client import Client
from leakmeter.traffic.log import write_log
from leakmeter.traffic.thieves import thief
from leakmeter.victims.load import load_victim
from leakmeter.watch.copies import Bench, grown
from leakmeter.watch.record import Point
from leakmeter.watch.rows import rows_of
from leakmeter.watch.settings import LogSettings
from leakmeter.watch.signals import ranked_clients
from leakmeter.watch.state import State

EFFORT = 0.1
_STEPS = {"steps": 300, "batch": 100, "lr": 3e-3, "schedule": "cyclic"}
PICTURES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("auto", {"effort": EFFORT}),
    ("surrogate", {"recipe": _STEPS, "pool": "own"}),
    ("uniform", {"effort": EFFORT}),
    ("procedural", {"committee": 1, "lessons": 0, "learn": _STEPS}),
    ("auto", {"effort": EFFORT, "pool": "own"}),
)
TABLES = (PICTURES[0], PICTURES[2], PICTURES[4])
VIEWS = ("probs", "labels", "probs:2", "top:1")
BUDGETS = (200, 400, 800)


def thieves(count: int, seed: int, first: int = 0) -> Iterator[dict[str, Any]]:
    """Each alone, so that what is compared is the copy and not the ranking; the record grows with every thief."""
    rows: list[dict[str, Any]] = []
    for number in range(first, count):
        place, name = divmod(number, len(VICTIMS))
        name = [*VICTIMS][name]
        with tempfile.TemporaryDirectory() as folder:
            rows.append(_alone(VICTIMS[name](Path(folder), seed), place, seed + number, Path(folder)))
        rows[-1]["victim"] = name
        yield summed(rows)


def summed(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What the rows come to."""
    short = [row for row in rows if row["stated"] < row["real"] - 0.03]
    return {
        "thieves": len(rows),
        "effort of thieves and of watch": EFFORT,
        "more than 3 points below the real attack": len(short),
        "mean difference": fmean(row["stated"] - row["real"] for row in rows),
        "worst": min(row["stated"] - row["real"] for row in rows),
        "rows": rows,
    }


def _alone(watched: Watched, place: int, seed: int, folder: Path) -> dict[str, Any]:
    """One thief: the attack, the view and the budget go round with its place among those of this victim."""
    kinds = PICTURES if watched.victim.spec.columns is None else TABLES
    attack, options = kinds[place % len(kinds)]
    own = options.get("pool") == "own"
    options = options | ({"pool": watched.pool} if own else {})
    view, budget = VIEWS[place % len(VIEWS)], BUDGETS[place % len(BUDGETS)]
    start = time.process_time()
    one = thief(watched.victim, attack, budget, view=view, test=watched.truth, seed=seed, **options)
    stolen = time.process_time() - start
    view_read, found = _stated(watched, one, seed, folder)
    return {
        "attack": f"{attack}{' with data' if own else ''}",
        "view": view,
        "read as": view_read,
        "queries": len(one),
        "seed": seed,
        "real": one.fidelity or 0.0,
        "stated": found.fidelity,
        "interval": found.interval.model_dump(mode="json"),
        "stated of each thief": found.thieves,
        "seconds of the thief": round(stolen, 1),
        "seconds of watch": round(time.process_time() - start - stolen, 1),
    }


def _stated(watched: Watched, client: Client, seed: int, folder: Path) -> tuple[str, Point]:
    """What a watch makes of the client's log, without how the copy grew."""
    write_log(folder / "log.jsonl", [client])
    settings = LogSettings(effort=EFFORT, seed=seed)
    with closing(State(folder / "state")) as state:
        state.read([("log", folder / "log.jsonl")], settings, watched.victim.spec)
        rows = rows_of(state, [client.name], watched.victim.spec, folder, settings.most, sample=True)
        desk = Bench(state, watched.victim.spec, watched.truth, settings)
        return str(rows.given.answer.view), grown(desk, desk.key, rows, line=2.0)[-1]


def scan(rows: int, seed: int) -> Iterator[dict[str, Any]]:
    """A Parquet log of 20 numbers a query, 10,000 clients; seconds by the clock, and of computing (all cores)."""
    import duckdb

    victim = load_victim(torch.nn.Linear(20, 3), input_shape=(20,), low=0.0, high=1.0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        numbers = ", ".join(f"CAST(hash(i, {k}, {seed}) % 1000000 AS FLOAT) / 1000000" for k in range(20))
        with duckdb.connect() as made:
            made.execute("SET memory_limit = '400MB'; SET preserve_insertion_order = false")
            made.execute(
                f"COPY (SELECT 'client-' || (hash(i, 'c') % 10000) AS client, 1700000000 + i / 100.0 AS time, "
                f"[{numbers}] AS input, CAST(hash(i, 'a') % 3 AS INTEGER) AS answer FROM range({rows}) t(i)) "
                f"TO '{path}' (FORMAT parquet)"
            )
        before, computed = time.perf_counter(), time.process_time()
        state = State(Path(folder) / "state")
        reading = state.read([("log", path)], LogSettings(), victim.spec)
        read = time.perf_counter() - before
        ranked, enough = ranked_clients(state, victim.spec, (), 50, 200)
        ranking, computed = time.perf_counter() - before - read, time.process_time() - computed
        again = time.perf_counter()
        path.touch()
        repeated = state.read([("log", path)], LogSettings(), victim.spec)
        state.close()
        size = (Path(folder) / "state" / "watch.duckdb").stat().st_size
    yield {
        "rows": rows,
        "read": reading.new,
        "seconds to read": round(read, 1),
        "seconds to rank": round(ranking, 1),
        "seconds of computing for both": round(computed, 1),
        "ranked": len(ranked),
        "clients": enough,
        "seconds to read again, nothing new": round(time.perf_counter() - again, 1),
        "new when read again": repeated.new,
        "peak memory in MB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "state in MB": round(size / 2**20),
        "load of the machine": [round(each, 1) for each in os.getloadavg()],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=["thieves", "nights", "sybils", "scan"], default="thieves")
    parser.add_argument("--seed", type=int, default=100)
    parser.add_argument("--thieves", type=int, default=30)
    parser.add_argument("--first", type=int, default=0, help="the first thief, where others are done elsewhere")
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--rows", type=int, default=10_000_000)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    size = {"thieves": asked.thieves, "scan": asked.rows}.get(asked.part, asked.runs)
    flag = {"thieves": "--thieves", "scan": "--rows"}.get(asked.part, "--runs")
    about = {"command": f"python bench/watch.py --part {asked.part} --seed {asked.seed} {flag} {size}"}
    done = (kept("watch-nights", about["command"]) or {}).get("runs", [])
    parts = {
        "thieves": partial(thieves, first=asked.first),
        "nights": partial(nights, done=done),
        "sybils": sybils,
        "scan": scan,
    }
    for record in parts[asked.part](size, asked.seed):
        keep(f"watch-{asked.part}", about | record)


if __name__ == "__main__":
    main()
