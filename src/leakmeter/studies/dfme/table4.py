"""DFME table 4: what a surrogate dataset is worth, by how near it is to the victim's own.

The paper's victims are ResNet-18 trained on all of CIFAR-10 and SVHN with a GPU; here victim and student are
a narrow `small-conv` on the data that is there, so shares of the victim's accuracy compare, not the accuracies.
"""

from __future__ import annotations

from functools import partial
from statistics import fmean
from typing import Any, NamedTuple

from leakmeter.studies.copies import share_over_seeds, steal
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.record import Record
from leakmeter.studies.rows import Row, share


class Pool(NamedTuple):
    """One column of the table."""

    name: str
    options: dict[str, Any]
    paper: float | None
    """The paper's accuracy of the copy."""


TABLE = {
    "cifar10": [
        Pool("cifar10", {"pool": "cifar10"}, 0.952),
        Pool("cifar100", {"pool": "cifar100"}, 0.935),
        Pool("svhn", {"pool": "svhn"}, 0.666),
        Pool("mnist", {"pool": "mnist"}, 0.372),
        Pool("random", {"pool": "gaussian"}, None),
    ],
    "svhn": [
        Pool("svhn", {"pool": "svhn"}, 0.960),
        Pool("cifar10", {"pool": "cifar10"}, 0.963),
        Pool("mnist", {"pool": "mnist"}, 0.895),
        Pool("svhn-skew", {"pool": "svhn", "first_classes": 5}, 0.961),
        Pool("random", {"pool": "gaussian"}, 0.84),
    ],
}
VICTIMS_OF_THE_PAPER = {"cifar10": 0.955, "svhn": 0.962}
TEMPERATURES = (1.0, 3.0, 5.0, 10.0)
SCHEDULES = ("cyclic", "step-decay")
MOST = 50_000
NETWORK = "small-conv:8"


def main(settings: StudyOptions) -> dict[str, Any]:
    """The matrix of victims and pools over all temperatures and schedules; the paper reports the best of them."""
    about = {"victim": NETWORK, "student": NETWORK, "queries": f"the whole pool, at most {MOST}"}
    record = settings.record("dfme-table4", **about)
    grid = [(t, s) for t in TEMPERATURES for s in SCHEDULES][: 1 if settings.quick else None]
    columns = [(dataset, pool) for dataset, pools in TABLE.items() for pool in pools]
    for temperature, schedule in grid:
        for dataset, pool in columns:
            for number in settings.numbers:
                key = f"{dataset}/{pool.name}/tau{temperature:g}/{schedule}/seed{number}"
                record.cell(key, partial(_cell, settings, dataset, pool, temperature, schedule, number))
        record.write(summary=[_row(record, dataset, pool) for dataset, pool in columns])
    return record.content


def _cell(
    settings: StudyOptions, dataset: str, pool: Pool, temperature: float, schedule: str, seed: int
) -> dict[str, Any]:
    steps = 20 if settings.quick else 1000
    recipe = {"steps": steps, "batch": 128, "optimizer": "sgd", "lr": 0.1, "weight_decay": 5e-4, "schedule": schedule}
    options = pool.options | {"student": NETWORK, "temperature": temperature, "recipe": recipe}
    stops, where = [500 if settings.quick else MOST], settings.data_dir
    copy = steal(
        settings,
        "surrogate",
        dataset,
        view="probs",
        stops=stops,
        seed=seed,
        victim=NETWORK,
        data_dir=where,
        **options,
    )
    return copy.facts


def rows(found: dict[str, Any]) -> list[Row]:
    """The highest of all settings, as in the paper's table, as a share of the victim's accuracy."""
    told = []
    for dataset, pool in ((dataset, pool) for dataset, pools in TABLE.items() for pool in pools):
        points = _points(found["cells"], dataset, pool)
        if points:
            setting = max(points, key=lambda each: fmean(_shares(points[each])))
            scores = points[setting]
            paper = None if pool.paper is None else pool.paper / VICTIMS_OF_THE_PAPER[dataset]
            budget = f"{scores[0]['queries']:,} queries, best of {len(points)} settings: {setting}"
            most = 1 / min(score["victim_accuracy"] for score in scores)
            what = f"{dataset} from {pool.name}: share of the victim's accuracy"
            told.append(share(what, _shares(scores), scores[0]["n"], budget, paper=paper, most=most))
    return told


def _shares(scores: list[dict[str, Any]]) -> list[float]:
    return [score["accuracy"] / score["victim_accuracy"] for score in scores]


def _points(cells: dict[str, Any], dataset: str, pool: Pool) -> dict[str, list[dict[str, Any]]]:
    """The last point of every cell of a column, by its setting."""
    settings: dict[str, list[dict[str, Any]]] = {}
    for key, cell in cells.items():
        victim, name, *setting, _ = key.split("/")
        if (victim, name) == (dataset, pool.name):
            settings.setdefault("/".join(setting), []).append(cell["curve"][-1])
    return settings


def _row(record: Record, dataset: str, pool: Pool) -> dict[str, Any]:
    """Every setting over the seeds, and the highest mean: what the paper's table shows, chosen on test data."""
    settings = _points(record.content["cells"], dataset, pool)
    shares = {setting: share_over_seeds(scores) for setting, scores in settings.items()}
    paper = None if pool.paper is None else pool.paper / VICTIMS_OF_THE_PAPER[dataset]
    best = max(share["mean"] for share in shares.values())
    return {"victim": dataset, "pool": pool.name, "settings": shares, "highest": best, "paper": paper}
