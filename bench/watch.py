"""What `leakmeter watch` finds in made-up traffic with known truth, and what a large log costs it.

    OMP_NUM_THREADS=1 python bench/watch.py [--part thieves|nights|scan] [--seed 100] [--thieves 30] [--rows 10000000]

1. `thieves`: many thieves (uniform points, `auto`, `surrogate`, `procedural`, with data and without; labels,
   probabilities, rounded ones, the best class; small and large budgets), each alone in a log: the fidelity that watch
   states against what the real attack got. Goes on where a stopped run of the same command was.
2. `nights`: 50 clients, one to five of them thieves (alone, slow, or with ten accounts), a log read night by night:
   the first alarm of every thief whose copy passes 80 %, and the honest clients flagged.
3. `scan`: a log of many rows, read and ranked: seconds and the peak of memory.

Victims: networks on 8×8 digits, trees on tables (`_watched.py`). Writes results/bench/watch-<part>.json.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from _keep import FOLDER, keep
from _watched import VICTIMS, Watched

from leakmeter.evaluation.score import Reference
from leakmeter.studies.provenance import fingerprint
from leakmeter.traffic.client import DAY, START, Client, split
from leakmeter.traffic.honest import honest_clients
from leakmeter.traffic.log import write_log
from leakmeter.traffic.thieves import thief
from leakmeter.victims.load import load_victim
from leakmeter.victims.victim import Victim
from leakmeter.watch.copies import Bench, grown
from leakmeter.watch.flow import watch
from leakmeter.watch.record import Point, WatchResult
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


def thieves(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Each alone, so that what is compared is the copy and not the ranking; the record grows with every thief."""
    rows = _before(count, seed)
    for number in range(len(rows), count):
        place, name = divmod(number, len(VICTIMS))
        name = [*VICTIMS][name]
        with tempfile.TemporaryDirectory() as folder:
            rows.append(_alone(VICTIMS[name](Path(folder), seed), place, seed + number, Path(folder)))
        rows[-1]["victim"] = name
        short = [row for row in rows if row["stated"] < row["real"] - 0.03]
        yield {
            "thieves": len(rows),
            "of planned": count,
            "effort of thieves and of watch": EFFORT,
            "more than 3 points below the real attack": len(short),
            "mean difference": fmean(row["stated"] - row["real"] for row in rows),
            "worst": min(row["stated"] - row["real"] for row in rows),
            "rows": rows,
        }


def _before(count: int, seed: int) -> list[dict[str, Any]]:
    """The thieves that an earlier, stopped run of the same command has measured."""
    path = FOLDER / "watch-thieves.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    same = found.get("command") == _command("thieves", seed, "--thieves", count)
    return found["rows"] if same and found["code"] == fingerprint() else []


def _command(part: str, seed: int, flag: str, size: int) -> str:
    return f"python bench/watch.py --part {part} --seed {seed} {flag} {size}"


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


def nights(runs: int, seed: int) -> Iterator[dict[str, Any]]:
    """One run after the other, with one, three and five thieves."""
    victim, pool, natural, truth = digits()
    rows = []
    for run in range(runs):
        rows.append(_nights(victim, pool, natural, truth, seed + run, min(5, 1 + 2 * run)))
        flagged, honest = sum(row["honest flagged"] for row in rows), sum(row["honest"] for row in rows)
        yield {"honest flagged": flagged, "honest": honest, "runs": rows}


def _nights(
    victim: Victim, pool: torch.Tensor, natural: torch.Tensor, truth: Reference, seed: int, count: int
) -> dict[str, Any]:
    """Some thieves among fifty clients over five nights."""
    makers = [
        lambda s: [thief(victim, "uniform", 2000, test=truth, days=5, seed=s, effort=EFFORT)],
        lambda s: [thief(victim, "auto", 1500, test=truth, days=5, seed=s, effort=EFFORT, pool=pool)],
        lambda s: split(thief(victim, "uniform", 2000, test=truth, days=5, seed=s, name="sybil", effort=EFFORT), 10),
        lambda s: [thief(victim, "auto", 1500, test=truth, days=5, seed=s, name="slow", effort=EFFORT)],
        lambda s: [thief(victim, "auto", 1500, view="labels", test=truth, days=5, seed=s, name="blind", effort=EFFORT)],
    ]
    bad = [part for k in range(count) for part in makers[k](seed * 10 + k)]
    users = honest_clients(victim, natural, 50 - count, queries=60, days=5, seed=seed)
    declared = [user.name for user in users[:20]]
    seen: dict[str, list[tuple[int, float]]] = {}
    flags: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        for night in range(1, 6):
            clients = [each.until(START + night * DAY) for each in [*users, *bad]]
            write_log(Path(folder) / "log.jsonl", [each for each in clients if len(each)])
            found = watch(
                Path(folder) / "log.jsonl", planned(honest=declared), out=Path(folder) / "runs", progress=False
            )
            _take_down(found, users, bad, night, seen, flags)
            print(night, {who: f"{rates[-1][1]:.3f}" for who, rates in seen.items()}, sorted(flags), flush=True)
    return {
        "seed": seed,
        "thieves": {who: _story(rates) for who, rates in seen.items()},
        "honest": len(users),
        "honest flagged": len(flags),
    }


def _take_down(
    found: WatchResult,
    users: list[Client],
    bad: list[Client],
    night: int,
    seen: dict[str, list[tuple[int, float]]],
    flags: set[str],
) -> None:
    """What was stated of each thief (of one with many accounts, together), and which honest clients were flagged."""
    owners = {each.name: each.owner or each.name for each in bad}
    names = {user.name for user in users}
    best: dict[str, float] = {}
    for each in found.clients:
        members = each.clients or (each.client,)
        if each.alarm and set(members) <= names:
            flags.update(members)
        for owner in {owners[name] for name in members if name in owners}:
            best[owner] = max(best.get(owner, 0.0), each.fidelity)
    for owner in set(owners.values()):
        seen.setdefault(owner, []).append((night, best.get(owner, 0.0)))


def _story(rates: list[tuple[int, float]]) -> dict[str, Any]:
    alarm = next(((night, rate) for night, rate in rates if rate >= 0.8), None)
    return {
        "stated by night": [round(rate, 4) for _, rate in rates],
        "passed 80%": alarm is not None,
        "fidelity at the alarm": None if alarm is None else alarm[1],
        "found before 90%": None if alarm is None else alarm[1] < 0.9,
    }


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
    parser.add_argument("--part", choices=["thieves", "nights", "scan"], default="thieves")
    parser.add_argument("--seed", type=int, default=100)
    parser.add_argument("--thieves", type=int, default=30)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rows", type=int, default=10_000_000)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    size = {"thieves": asked.thieves, "nights": asked.runs, "scan": asked.rows}[asked.part]
    flag = {"thieves": "--thieves", "nights": "--runs", "scan": "--rows"}[asked.part]
    about = {"command": _command(asked.part, asked.seed, flag, size)}
    parts = {"thieves": thieves, "nights": nights, "scan": scan}
    for record in parts[asked.part](size, asked.seed):
        keep(f"watch-{asked.part}", about | record)


if __name__ == "__main__":
    main()
