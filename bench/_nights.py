"""Made-up nights for `bench/watch.py`: thieves and Sybils among honest clients, the log read as an owner reads it."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from _watched import VICTIMS, Watched

from leakmeter.traffic.client import DAY, START, Client, split
from leakmeter.traffic.honest import honest_clients
from leakmeter.traffic.log import write_log
from leakmeter.traffic.thieves import thief
from leakmeter.watch.flow import watch
from leakmeter.watch.record import ClientCopy, WatchResult

NIGHTS, CLIENTS, LITTLE, LINE = 5, 50, 0.05, 0.8
CAST: dict[str, tuple[str, int, str, dict[str, Any], int]] = {
    "plain": ("auto", 900, "probs", {}, 1),
    "with data": ("auto", 360, "labels", {"pool": "own"}, 1),
    "sybil": ("uniform", 1500, "probs", {}, 10),
    "natural sybil": ("auto", 800, "probs", {"pool": "own", "sources": ()}, 10),
    "blind": ("uniform", 900, "labels", {}, 1),
}
"""Thieves by name: attack, queries over all nights, view, options, accounts."""
SCENES = (
    ("digits LeNet", ("plain", "with data", "sybil", "natural sybil", "blind")),
    ("made-up LightGBM", ("plain", "sybil", "blind")),
    ("digits LeNet", ("with data",)),
    ("made-up LightGBM", ("plain", "with data")),
)


def nights(runs: int, seed: int, done: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """One scene after the other, with one to five thieves among fifty clients; goes on after those that are done."""
    rows = [*done]
    for run in range(len(done), runs):
        name, cast = SCENES[run % len(SCENES)]
        with tempfile.TemporaryDirectory() as folder:
            watched = VICTIMS[name](Path(folder), seed + run)
            bad = [_hired(watched, who, seed * 100 + run * 10 + place) for place, who in enumerate(cast)]
            rows.append({"victim": name, "seed": seed + run, **_told(watched, bad, seed + run, Path(folder))})
        passed = [each for row in rows for each in row["thieves"].values() if max(each["real"]) >= LINE]
        yield {
            "effort of thieves and of watch": LITTLE,
            "honest": sum(row["honest"] for row in rows),
            "honest flagged": sum(len(row["honest flagged"]) for row in rows),
            "thieves that pass 80%": len(passed),
            "found before 90%": sum(each["found before 90%"] for each in passed),
            "never named": sum(each["alarm in night"] is None for each in passed),
            "of these said before 90% to be possible": sum(each["said before 90%"] for each in passed),
            "runs": rows,
        }


def _hired(watched: Watched, who: str, seed: int) -> Client:
    attack, budget, view, options, _ = CAST[who]
    options = {"effort": LITTLE, **options} | ({"pool": watched.pool} if "pool" in options else {})
    if watched.victim.spec.columns is not None:
        options.pop("sources", None)
    budget = min(budget, len(watched.pool)) if "pool" in options else budget
    stops = [budget * night // NIGHTS for night in range(1, NIGHTS)]
    return thief(
        watched.victim,
        attack,
        budget,
        name=who,
        view=view,
        test=watched.truth,
        days=NIGHTS,
        seed=seed,
        stops=stops,
        **options,
    )


def _told(watched: Watched, bad: list[Client], seed: int, folder: Path) -> dict[str, Any]:
    """The thieves among honest clients, the log read night by night; a warning counts as an alarm, true or false."""
    accounts = [
        part for each in bad for part in (split(each, CAST[each.name][4]) if CAST[each.name][4] > 1 else [each])
    ]
    owners = {each.name: each.owner or each.name for each in accounts}
    users = honest_clients(watched.victim, watched.natural, CLIENTS - len(accounts), queries=50, days=NIGHTS, seed=seed)
    plan = watched.planned(effort=LITTLE, line=LINE, train=12, honest=[user.name for user in users[:15]])
    stated: dict[str, list[float]] = {each.name: [] for each in bad}
    named: dict[str, list[bool]] = {each.name: [] for each in bad}
    flags: set[str] = set()
    rest: list[float] = []
    for night in range(1, NIGHTS + 1):
        seen = [each.until(START + night * DAY) for each in [*users, *accounts]]
        write_log(folder / "log.jsonl", [each for each in seen if len(each)])
        found = watch(folder / "log.jsonl", plan, out=folder / "runs", progress=False)
        alarms = {name for each in found.clients if each.alarm or each.soon for name in each.clients or (each.client,)}
        for who, rates in stated.items():
            mine = {name for name, owner in owners.items() if owner == who}
            rates.append(_best(found, mine))
            named[who].append(bool(alarms & mine))
        rest.append(found.others[-1].fidelity if found.others else 0.0)
        flags |= alarms & {user.name for user in users}
        print(night, {who: round(rates[-1], 3) for who, rates in stated.items()}, rest[-1], sorted(flags), flush=True)
    return {
        "honest": len(users),
        "honest flagged": sorted(flags),
        "thieves": {each.name: _story(each, stated[each.name], named[each.name], rest) for each in bad},
        "looked at as one": [_joined(each, owners) for each in found.clients if each.by == "likeness"],
        "stated of all whom no alarm names": [round(rate, 4) for rate in rest],
    }


def _best(found: WatchResult, accounts: set[str]) -> float:
    """The best copy stated of a thief: of one account, or of several looked at as one."""
    return max((each.fidelity for each in found.clients if accounts & {*each.clients, each.client}), default=0.0)


def _story(one: Client, stated: list[float], named: list[bool], rest: list[float]) -> dict[str, Any]:
    """What a thief had and what was said of it, night by night; nothing is known between two nights.

    Of one that is never named: whether it was said in time that all whom nobody names could hold such a copy.
    """
    asked = [len(one.until(START + night * DAY)) for night in range(1, NIGHTS + 1)]
    real = [one.had(n) for n in asked]
    alarm = next((night for night, flagged in enumerate(named) if flagged), None)
    said = next((night for night, rate in enumerate(rest) if rate >= LINE), None) if alarm is None else None
    return {
        "queries": asked,
        "real": [round(rate, 4) for rate in real],
        "stated": [round(rate, 4) for rate in stated],
        "accounts": CAST[one.name][4],
        "alarm in night": None if alarm is None else alarm + 1,
        "found before 90%": alarm is not None and real[alarm] < 0.9,
        "said before 90%": said is not None and real[said] < 0.9,
    }


def _joined(each: ClientCopy, owners: dict[str, str]) -> dict[str, int]:
    """Whose accounts stand in one coalition."""
    return dict(Counter(owners.get(name, "honest") for name in each.clients))


ACCOUNTS, USERS = 10, 40
SYBILS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "uniform": ("uniform", 1500, {}),
    "auto": ("auto", 1500, {"effort": LITTLE}),
    "natural": ("surrogate", 1000, {"recipe": {"steps": 10}}),
}
"""Thieves with ten accounts each: attack, queries, options; `natural` asks inputs as honest clients do."""


def sybils(runs: int, seed: int) -> Iterator[dict[str, Any]]:
    """One victim after the other, each with three thieves of ten accounts."""
    rows = []
    for run in range(runs):
        name = [*VICTIMS][run % len(VICTIMS)]
        with tempfile.TemporaryDirectory() as folder:
            watched = VICTIMS[name](Path(folder), seed + run)
            rows.append({"victim": name, "seed": seed + run, **_joined_by_likeness(watched, seed + run, Path(folder))})
        strange = [row["largest part in one"][who] for row in rows for who in ("uniform", "auto")]
        yield {
            "scenes": len(rows),
            "strange thieves": len(strange),
            "found as one, all ten accounts": sum(part == ACCOUNTS for part in strange),
            "accounts found together": sum(part for part in strange if part > 1),
            "natural accounts put together": sum(
                row["largest part in one"]["natural"] for row in rows if row["largest part in one"]["natural"] > 1
            ),
            "honest": USERS * len(rows),
            "honest put together with others": sum(row["honest in a coalition"] for row in rows),
            "runs": rows,
        }


def _joined_by_likeness(watched: Watched, seed: int, folder: Path) -> dict[str, Any]:
    """Who is looked at as one; linear copies only, since nobody asks here how good they are."""
    users = honest_clients(watched.victim, watched.natural, USERS, queries=200, seed=seed)
    bad = []
    for place, (who, (attack, budget, options)) in enumerate(SYBILS.items()):
        own = torch.cat([watched.pool, watched.natural])[:budget]  # of tables the pool alone is small
        extra, budget = ({"pool": own}, len(own)) if who == "natural" else ({}, budget)
        one = thief(watched.victim, attack, budget, name=who, seed=seed * 10 + place, **options, **extra)
        bad += split(one, ACCOUNTS)
    write_log(folder / "log.jsonl", [*users, *bad])
    plan = watched.planned(effort=0.01, students=["linear"], train=10, least=20)
    found = watch(folder / "log.jsonl", plan, out=folder / "runs", progress=False)
    owners = {each.name: each.owner or "" for each in bad}
    groups = [_joined(each, owners) for each in found.clients if each.by == "likeness"]
    return {
        "queries of an account": {each.owner: len(each) for each in bad},
        "looked at as one": groups,
        "largest part in one": {who: max((group.get(who, 0) for group in groups), default=0) for who in SYBILS},
        "honest in a coalition": sum(group.get("honest", 0) for group in groups),
    }
