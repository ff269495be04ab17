"""What `leakmeter watch` finds in made-up traffic with known truth, and what a large log costs it.

    OMP_NUM_THREADS=1 python bench/watch.py [--part thieves|nights|scan] [--seed 100] [--thieves 30] [--rows 10000000]

1. `thieves`: many thieves (uniform points, `auto`, pools of real data; labels and probabilities; small and large
   budgets), each alone in a log: the fidelity that watch states against what the real attack got.
2. `nights`: 50 clients, one to five of them thieves (alone, slow, or with ten accounts), a log read night by night:
   the first alarm of every thief whose copy passes 80 %, and the honest clients flagged.
3. `scan`: a log of many rows, read and ranked: seconds and the peak of memory.

Victim: LeNet on 8×8 digits (the demo's); honest users ask test digits. Writes results/bench/watch-<part>.json.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from _keep import keep

from leakmeter.data.catalogue import load
from leakmeter.evaluation.score import Reference, reference
from leakmeter.plan import Plan, make_plan
from leakmeter.traffic.client import DAY, START, Client, split
from leakmeter.traffic.honest import honest_clients
from leakmeter.traffic.log import write_log
from leakmeter.traffic.thieves import thief
from leakmeter.victims.load import load_victim
from leakmeter.victims.victim import Victim
from leakmeter.watch.flow import watch
from leakmeter.watch.record import WatchResult
from leakmeter.watch.settings import LogSettings
from leakmeter.watch.signals import ranked_clients
from leakmeter.watch.state import State

EFFORT = 0.05
VICTIM = {"source": "leakmeter.demo:digits_victim", "input_shape": [1, 8, 8], "low": 0.0, "high": 1.0, "classes": 10}


def planned(**log: Any) -> Plan:
    section = {"effort": EFFORT, "detectors": [], "train": 10, **log}
    return make_plan({"name": "bench", "victim": VICTIM, "data": {"name": "digits"}, "log": section})


def digits() -> tuple[Victim, torch.Tensor, torch.Tensor, Reference]:
    """The victim, what thieves may have, what honest users ask, and the truth on test inputs."""
    given = {key: value for key, value in VICTIM.items() if key != "source"}
    victim = load_victim(VICTIM["source"], **given | {"outputs": "logits", "input_shape": (1, 8, 8)})
    test = load("digits", "test")
    return victim, load("digits", "train").x, test.x, reference(victim, test)


def thieves(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Each alone, so that what is compared is the copy and not the ranking; the record grows with every thief."""
    victim, pool, _, truth = digits()
    kinds = [("uniform", {}), ("auto", {}), ("auto", {"pool": pool})]
    rows = []
    for number in range(count):
        attack, options = kinds[number % 3]
        view, budget = ("probs", "labels")[number // 3 % 2], (200, 500, 1000)[number // 6 % 3]
        one = thief(victim, attack, budget, view=view, test=truth, seed=seed + number, effort=EFFORT, **options)
        with tempfile.TemporaryDirectory() as folder:
            write_log(Path(folder) / "log.jsonl", [one])
            found = watch(Path(folder) / "log.jsonl", planned(seed=seed), out=Path(folder) / "runs", progress=False)
        stated, got = found.clients[0].fidelity, one.fidelity or 0.0
        what = f"{attack}{' with data' if options else ''}"
        rows.append({"attack": what, "view": view, "queries": budget, "real": got, "stated": stated})
        short = [row for row in rows if row["stated"] < row["real"] - 0.03]
        yield {
            "thieves": len(rows),
            "of planned": count,
            "more than 3 points below the real attack": len(short),
            "mean difference": fmean(row["stated"] - row["real"] for row in rows),
            "worst": min(row["stated"] - row["real"] for row in rows),
            "rows": rows,
        }


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
    about = {"command": f"python bench/watch.py --part {asked.part} --seed {asked.seed} {flag} {size}"}
    parts = {"thieves": thieves, "nights": nights, "scan": scan}
    for record in parts[asked.part](size, asked.seed):
        keep(f"watch-{asked.part}", about | record)


if __name__ == "__main__":
    main()
