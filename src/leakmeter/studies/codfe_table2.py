"""CoDFe table 2: the upper bound, a copy made from real unlabelled images of the victim's own kind."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from leakmeter.progress import SILENT, Progress
from leakmeter.studies.copies import Bench
from leakmeter.studies.record import Record
from leakmeter.studies.thieves import attack_with, table

BUDGET = 10_000
VIEWS = ("probs", "labels")
_RATES = {
    "fgsm": (63.95, 61.80, 16.38, 15.68),
    "bim": (79.02, 80.24, 29.95, 30.06),
    "pgd": (78.77, 80.46, 29.48, 30.20),
}
PAPER = {
    f"mnist/{view}/real/{goal}/{attack}": rates[2 * i + j] / 100
    for attack, rates in _RATES.items()
    for i, goal in enumerate(("untargeted", "targeted"))
    for j, view in enumerate(VIEWS)
}


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
    """Copies from real MNIST images, attacked in every way."""
    command = f"leakmeter study codfe-table2 --seed {seed} --seeds {seeds}{' --quick' if quick else ''}"
    record = Record(out, "codfe-table2", command, {"victim": "lenet", "student": "lenet", "pool": "mnist"})
    bench = Bench(data_dir, device, progress, quick)
    for view in VIEWS:
        for number in range(seed, seed + seeds):
            record.cell(f"mnist/{view}/real/seed{number}", partial(_cell, bench, view, number))
            record.write(table=table(record.content["cells"], PAPER))
    return record.content


def _cell(bench: Bench, view: str, seed: int) -> dict[str, Any]:
    stops, where = [1_000 if bench.quick else BUDGET], bench.data_dir
    copy = bench.copy("surrogate", "mnist", view=view, stops=stops, seed=seed, pool="mnist", data_dir=where)
    return attack_with(bench, copy)
