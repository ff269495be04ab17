"""Copies of models of tables: Adult, COMPAS and German Credit, no data, against the best of the usual students.

    LEAKMETER_DATA=... python bench/tables.py [--where dataset=german,adult victim=xgboost how=tabular seed=40 ...]

Writes results/bench/tables.json after every row and leaves out rows that are there already, so that it can be stopped
and run as several processes. `--where` keeps the rows whose values are among those named.
"""

from __future__ import annotations

import argparse
import csv
import fcntl
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import leakmeter as lm
from leakmeter.data.columns import Column, Columns
from leakmeter.evaluation.score import predict
from leakmeter.extraction.base import AttackJob
from leakmeter.extraction.students import STUDENTS, Lesson
from leakmeter.seeds import derive, stream
from leakmeter.studies.provenance import commit
from leakmeter.victims.victim import Victim

FILES = {
    "german": "German-Credit.csv",
    "compas": "COMPAS-ProPublica_processedMACE.csv",
    "adult": "Adult_processedMACE.csv",
}
KEPT = Path("results/bench/tables.json")


class Table:
    """A file whose second line gives the kind of every column, parted into train and test rows by a seed."""

    def __init__(self, name: str, seed: int) -> None:
        with (Path(os.environ["LEAKMETER_DATA"]) / "tabular" / FILES[name]).open() as file:
            header, kinds, _, *rows = list(csv.reader(file))
        columns = [_codes([row[place] for row in rows]) for place in range(len(header))]
        x, y = np.stack(columns[:-1], 1), columns[-1].astype(int)
        self.columns = Columns([_column(header[j], kinds[j], x[:, j]) for j in range(len(header) - 1)])
        """What each holds; ranges and levels are those of all rows."""
        order = torch.randperm(len(x), generator=stream(seed, "bench", "rows")).numpy()
        test, train = order[: len(x) // 5], order[len(x) // 5 :]
        self.train, self.test = (x[train], y[train]), torch.from_numpy(x[test]).float()

    def publish(self) -> None:
        """Tells of every column the mean of the training rows, or how often each level comes up in them."""
        rows = self.train[0]
        self.columns = Columns([_published(column, rows[:, place]) for place, column in enumerate(self.columns)])


def _codes(values: list[str]) -> np.ndarray:
    try:
        return np.array([float(value) for value in values])
    except ValueError:
        levels = sorted(set(values))
        return np.array([float(levels.index(value)) for value in values])


def _column(name: str, kind: str, values: np.ndarray) -> Column:
    if kind in "BC":
        return Column(name=name, kind="categorical", levels=tuple(int(value) for value in np.unique(values)))
    return Column(name=name, kind="integer", low=values.min(), high=values.max())


def _published(column: Column, values: np.ndarray) -> Column:
    if column.kind != "categorical":
        return column.model_copy(update={"mean": float(values.mean())})
    return column.model_copy(update={"shares": tuple(float((values == level).mean()) for level in column.levels)})


def model(kind: str, seed: int) -> Any:
    if kind == "xgboost":
        import xgboost

        return xgboost.XGBClassifier(n_estimators=100, max_depth=6, n_jobs=1, random_state=seed)
    if kind == "lightgbm":
        import lightgbm

        return lightgbm.LGBMClassifier(n_estimators=100, max_depth=6, n_jobs=1, random_state=seed, verbose=-1)
    if kind.startswith("tree"):
        return DecisionTreeClassifier(max_depth=5, min_samples_leaf=int(kind[4:] or 1), random_state=seed)
    return RandomForestClassifier(3 if kind == "forest3" else 100, random_state=seed)


def victim(table: Table, kind: str, seed: int) -> Victim:
    return lm.load_victim(model(kind, seed).fit(*table.train), columns=table.columns)


class Judge:
    """What the victim says to the test rows and to points of the box."""

    def __init__(self, table: Table, target: Victim, points: int) -> None:
        box = target.spec.sample(points, stream(7, "bench", "box"))
        self.x = {"test": table.test, "box": box.float()}
        owner = lm.Oracle(target)
        self.labels = {name: owner.judge(x).labels for name, x in self.x.items()}

    def fidelity(self, copy: torch.nn.Module) -> dict[str, float]:
        """How often a copy names the same class, on each of them."""
        return {
            name: float((predict(copy, x).argmax(1) == self.labels[name]).double().mean()) for name, x in self.x.items()
        }


def exact(dataset: str, kind: str, seed: int, method: str) -> dict[str, Any]:
    table = Table(dataset, seed)
    target = victim(table, kind, seed)
    oracle = lm.Oracle(target, view="probs", budget=20_000)
    options = {"method": "parts", "proof": 0} if method == "parts without proof" else {"method": method}
    found = lm.extract("exact-tree", oracle, seed=seed, **options)
    return {
        "queries": oracle.ledger.spent(),
        "queries_before_proof": found.notes["exact-tree"].get("queries_before_proof", oracle.ledger.spent()),
        "units": found.findings.units,
        "says_complete": found.findings.complete,
        "certificate_exact": bool(found.findings.certificate and found.findings.certificate.exact),
        **Judge(table, target, 100_000).fidelity(found.substitute),
    }


def ensemble(dataset: str, kind: str, seed: int, view: str, budget: int, how: str) -> dict[str, Any]:
    table = Table(dataset, seed)
    if how == "tabular with means":
        table.publish()
    target = victim(table, kind, seed)
    oracle = lm.Oracle(target, view=view, budget=budget)
    if how.startswith("tabular"):
        options: dict[str, Any] = {"adaptive": how != "tabular blind"}
        if how == "tabular with rows":
            options["pool"] = torch.from_numpy(table.train[0]).float()
        found = lm.extract("tabular", oracle, seed=seed, **options)
        copy, chosen = found.substitute, next(t.name for t in found.findings.tried if t.chosen)
    else:
        chosen, source = how.split(" on ")
        copy = student(table, target, oracle, chosen, source, seed, budget)
    return {"queries": oracle.ledger.spent(), "chosen": chosen, **Judge(table, target, 20_000).fidelity(copy)}


def student(
    table: Table, target: Victim, oracle: lm.Oracle, name: str, source: str, seed: int, budget: int
) -> torch.nn.Module:
    """One of the usual students, on uniform rows or on rows of the training data."""
    draws = stream(seed, "bench", source)
    x = target.spec.sample(budget, draws).float()
    if source == "data":
        rows = torch.from_numpy(table.train[0]).float()
        x = rows[torch.randperm(len(rows), generator=draws)[:budget]]
    reading: Any = "labels" if oracle.view.kind == "labels" else "logits"
    job = AttackJob(seed, torch.device("cpu"))
    answer = oracle.query(x)
    lesson = Lesson(x, answer, reading, "none", target.spec, job, derive(seed, "bench", name), name, 4.0)
    return STUDENTS[name].fit(lesson)


def explained(dataset: str, seed: int, view: str) -> dict[str, Any]:
    """How many queries 99 % of the box takes, of a boosted model's file: Shapley values of its log-odds are exact."""
    table = Table(dataset, seed)
    with tempfile.TemporaryDirectory() as folder:
        fitted = model("xgboost", seed).fit(*table.train)
        fitted.get_booster().feature_names = table.columns.names
        fitted.save_model(Path(folder) / "model.json")
        target = lm.load_victim(Path(folder) / "model.json", columns=table.columns)
    judge, stops = Judge(table, target, 20_000), (300, 1_000, 3_000, 10_000)
    oracle = lm.Oracle(target, view=view, budget=stops[-1])
    found = lm.extract("tabular", oracle, seed=seed, stops=stops, test=judge.x["box"])
    curve = {point.queries: point.score.fidelity for point in found.curve if point.score is not None}
    reached = next((queries for queries, fidelity in sorted(curve.items()) if fidelity >= 0.99), None)
    chosen = next(t.name for t in found.findings.tried if t.chosen)
    return {"curve": curve, "queries_to_99": reached, "chosen": chosen, **judge.fidelity(found.substitute)}


def parquet(rows: int) -> dict[str, Any]:
    """The most memory of a process that reads a file of numbers and words, and of the one that tries it first."""
    draws = np.random.default_rng(0)
    frame = {f"n{j}": draws.normal(size=rows) for j in range(11)} | {"y": draws.integers(0, 2, rows)}
    code = (
        "import resource, sys; from leakmeter.data.catalogue import load; load(sys.argv[1], 'all', target='y'); "
        "print(*[resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)])"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        polars.DataFrame(frame | {"s": draws.choice(["a", "b", "c"], rows)}).write_parquet(path)
        out = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True).stdout
        size = path.stat().st_size
    own, trial = (int(kilobytes) * 1024 for kilobytes in out.split())
    return {"file_bytes": size, "peak_bytes": own, "trial_peak_bytes": trial}


HOWS = (
    "tabular",
    "tabular with means",
    "tabular with rows",
    *(f"{student} on {source}" for source in ("uniform", "data") for student in ("boosted", "bagged", "dense")),
)


def default_audit(dataset: str, seed: int) -> dict[str, Any]:
    """What `leakmeter audit --victim model.json --data rows.csv` says of a boosted model's file, and what it takes."""
    table = Table(dataset, seed)
    fitted = model("xgboost", seed).fit(*table.train)
    names = [column.name for column in table.columns]
    fitted.get_booster().feature_names = names
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fitted.save_model(folder / "model.json")
        polars.DataFrame(table.test.numpy(), schema=names).write_csv(folder / "rows.csv")
        command = [sys.executable, "-m", "leakmeter", "audit", "--victim", "model.json", "--data", "rows.csv"]
        before, start = _computed(), time.monotonic()
        done = subprocess.run([*command, "--display", "none"], cwd=folder, check=False)
        taken, (result,) = time.monotonic() - start, folder.glob("runs/*/results.json")
        verdict = json.loads(result.read_text())["verdict"]
        return {
            "exit": done.returncode,
            "seconds": round(taken, 1),
            "computed": round(_computed() - before, 1),
            "load": os.getloadavg()[0],
            "headline": verdict["headline"],
        }


def _computed() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def rows() -> list[dict[str, Any]]:
    trees = [
        {"part": "tree", "dataset": "german", "victim": kind, "seed": seed, "how": method}
        for seed in range(50, 60)
        for kind in ("tree", "tree5")
        for method in ("parts", "parts without proof", "paper")
    ]
    forests = [
        {"part": "tree", "dataset": "compas", "victim": "forest3", "seed": seed, "how": "parts"}
        for seed in range(50, 55)
    ]
    ensembles = [
        {"part": "ensembles", "dataset": d, "victim": v, "seed": s, "view": view, "budget": budget, "how": how}
        for s in (50, 51, 52)
        for budget in (10_000, 1_000)
        for d in ("german", "adult", "compas")
        for v in ("xgboost", "lightgbm", "forest")
        for view, hows in (("probs", HOWS), ("labels", ("tabular", "tabular with means")))
        for how in hows
    ]
    shown = [
        {"part": "shap", "dataset": "german", "seed": seed, "view": view}
        for seed in (50, 51, 52)
        for view in ("probs", "probs+shap")
    ]
    audits = [{"part": "audit", "dataset": dataset, "seed": 61} for dataset in ("german", "adult", "compas")]
    return [*trees, *forests, {"part": "parquet", "rows": 10**6}, *audits, *shown, *ensembles]


def run(row: dict[str, Any]) -> dict[str, Any]:
    if row["part"] == "parquet":
        return parquet(row["rows"])
    if row["part"] == "shap":
        return explained(row["dataset"], row["seed"], row["view"])
    if row["part"] == "audit":
        return default_audit(row["dataset"], row["seed"])
    if row["part"] == "tree":
        return exact(row["dataset"], row["victim"], row["seed"], row["how"])
    return ensemble(row["dataset"], row["victim"], row["seed"], row["view"], row["budget"], row["how"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--where", nargs="+", default=[], metavar="KEY=VALUE,VALUE")
    wanted = [
        (key, values.split(",")) for key, _, values in (each.partition("=") for each in parser.parse_args().where)
    ]
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="X does not have valid feature names")
    for row in rows():
        if all(str(row.get(key)) in values for key, values in wanted) and not any(
            row.items() <= old.items() for old in kept()
        ):
            start = time.process_time()
            measured = run(row)
            keep(row | measured | {"cpu_seconds": round(time.process_time() - start, 1), "commit": commit()})


def kept() -> list[dict[str, Any]]:
    text = KEPT.read_text() if KEPT.is_file() else ""
    return json.loads(text)["rows"] if text else []


def keep(row: dict[str, Any]) -> None:
    """Adds a row to the file, which other processes may write too."""
    with KEPT.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        KEPT.write_text(json.dumps({"command": "python bench/tables.py", "rows": [*kept(), row]}, indent=0) + "\n")
    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
