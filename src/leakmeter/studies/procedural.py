"""What drawn queries are worth: the procedural attack by view and student, beside real pools of the same size."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from leakmeter.progress import SILENT, Progress
from leakmeter.studies.copies import Bench, at, over_seeds
from leakmeter.studies.record import Record


class Arm(NamedTuple):
    """One row of the table: an attack on LeNet, the stops, and the least share of the victim's accuracy we aim at."""

    name: str
    dataset: str
    attack: str
    view: str
    aims: dict[int, float | None]
    options: dict[str, Any]


OTHER_STUDENT = "codfe-substitute"
UNRELATED = {"mnist": "fashion-mnist", "fashion-mnist": "mnist"}


def arms(dataset: str) -> list[Arm]:
    """The rows for one dataset: ours first, then what having data is worth."""
    mnist = dataset == "mnist"
    probs: dict[int, float | None] = {500: 0.97, 2000: 0.99} if mnist else {5000: 0.90, 20_000: 0.955}
    labels: dict[int, float | None] = {5000: 0.975, 20_000: 0.99} if mnist else {20_000: 0.85}
    other: dict[int, float | None] = {5000: 0.985} if mnist else {20_000: 0.93}
    ours = [
        Arm("procedural-probs", dataset, "procedural", "probs", probs, {}),
        Arm("procedural-labels", dataset, "procedural", "labels", labels, {}),
        Arm("procedural-probs-other-student", dataset, "procedural", "probs", other, {"student": OTHER_STUDENT}),
    ]
    pools = {"own-data": dataset, "unrelated-data": UNRELATED[dataset], "gaussian": "gaussian"}
    return ours + [
        Arm(f"{name}-probs", dataset, "surrogate", "probs", dict.fromkeys(probs), {"pool": pool})
        for name, pool in pools.items()
    ]


def main(
    out: Path,
    *,
    seed: int = 0,
    seeds: int = 3,
    quick: bool = False,
    data_dir: Path | None = None,
    device: str = "cpu",
    progress: Progress = SILENT,
) -> dict[str, Any]:
    """Share of the victim's accuracy at each number of queries, over seeds, with the aim beside it."""
    command = f"leakmeter study procedural --seed {seed} --seeds {seeds}{' --quick' if quick else ''}"
    bench = Bench(data_dir, device, progress, quick)
    record = Record(out, "procedural", command, {"victim": "lenet", "student": "lenet unless said"})
    rows = [arm for dataset in UNRELATED for arm in arms(dataset)]
    for arm in rows:
        for number in range(seed, seed + seeds):
            record.cell(f"{arm.dataset}/{arm.name}/seed{number}", partial(_cell, bench, arm, number))
    return record.write(summary=[_summary(record, arm, range(seed, seed + seeds)) for arm in rows])


def _cell(bench: Bench, arm: Arm, seed: int) -> dict[str, Any]:
    options = dict(arm.options)
    stops = list(arm.aims)
    if bench.quick:
        stops = [200]
        options |= _QUICK[arm.attack]
    if arm.attack == "surrogate":
        options["data_dir"] = bench.data_dir
    victim = bench.victim(arm.dataset, "lenet", seed)
    return bench.copy(arm.attack, victim, arm.dataset, view=arm.view, stops=stops, seed=seed, **options)


_SHORT = {"steps": 60, "batch": 100, "lr": 3e-3, "schedule": "cyclic"}
_QUICK: dict[str, dict[str, Any]] = {
    "procedural": {"committee": 2, "lessons": 500, "learn": _SHORT, "teach": _SHORT},
    "surrogate": {"recipe": _SHORT},
}


def _summary(record: Record, arm: Arm, seeds: range) -> dict[str, Any]:
    cells = [record.content["cells"][f"{arm.dataset}/{arm.name}/seed{number}"] for number in seeds]
    rows = []
    for queries, aim in arm.aims.items():
        if queries <= cells[0]["curve"][-1]["queries"]:
            share = over_seeds([at(cell, queries)["accuracy_over_victim"] for cell in cells])
            fidelity = over_seeds([at(cell, queries)["fidelity"] for cell in cells])
            met = None if aim is None else share["mean"] >= aim
            rows.append(
                {"queries": queries, "accuracy_over_victim": share, "fidelity": fidelity, "aim": aim, "met": met}
            )
    return {"dataset": arm.dataset, "arm": arm.name, "view": arm.view, "rows": rows}
