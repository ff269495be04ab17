"""What drawn queries are worth: the procedural attack by view and student, beside DFME and pools of real data."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from leakmeter.studies.copies import StolenCopy, at, over_seeds, share_over_seeds, steal
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.record import Record
from leakmeter.studies.rows import Row, share


class Arm(NamedTuple):
    """One attack on one victim; `aims` holds the stops and the least share of the victim's accuracy we aim at."""

    name: str
    dataset: str
    attack: str
    view: str
    aims: dict[int, float | None]
    options: dict[str, Any]


VICTIMS = {"mnist": "lenet", "fashion-mnist": "lenet", "cifar10": "small-conv"}
UNRELATED = {"mnist": "fashion-mnist", "fashion-mnist": "mnist", "cifar10": "svhn"}
OTHER_STUDENT = {"student": "codfe-substitute", "committee": 2}
COLOUR_STUDENT = {"student": "small-conv"}
LENET_DFME = {
    "batch": 64,
    "width": 16,
    "student_optimizer": "adam",
    "student_lr": 2e-3,
    "generator_lr": 1e-3,
    "replays": 20,
    "milestones": (0.7, 0.9),
}

# In the order of what matters most: a study that is stopped early has the rows at the top.
ARMS = [
    Arm("procedural-probs", "mnist", "procedural", "probs", {500: 0.97, 2000: 0.99}, {}),
    Arm("procedural-probs", "fashion-mnist", "procedural", "probs", {5000: 0.90, 20_000: 0.955}, {}),
    Arm("procedural-labels", "mnist", "procedural", "labels", {5000: 0.975, 20_000: 0.99}, {}),
    Arm("procedural-labels", "fashion-mnist", "procedural", "labels", {20_000: 0.85}, {}),
    Arm("procedural-other-student", "mnist", "procedural", "probs", {5000: 0.985}, OTHER_STUDENT),
    Arm("procedural-other-student", "fashion-mnist", "procedural", "probs", {20_000: 0.93}, OTHER_STUDENT),
    Arm("dfme-100k", "mnist", "dfme", "probs", {100_000: 0.88}, LENET_DFME),
    Arm("dfme-100k", "fashion-mnist", "dfme", "probs", {100_000: None}, LENET_DFME),
    *(
        Arm(name, dataset, "surrogate", "probs", dict.fromkeys(stops), {"pool": pool})
        for dataset, stops in (("mnist", (2000,)), ("fashion-mnist", (20_000,)))
        for name, pool in (("own-data", dataset), ("unrelated-data", UNRELATED[dataset]))
    ),
    Arm("dfme-1m", "mnist", "dfme", "probs", {1_000_000: 0.96}, LENET_DFME),
    Arm("procedural-probs", "cifar10", "procedural", "probs", {50_000: 0.80}, COLOUR_STUDENT),
    Arm("own-data", "cifar10", "surrogate", "probs", {20_000: None}, COLOUR_STUDENT | {"pool": "cifar10"}),
    Arm("unrelated-data", "cifar10", "surrogate", "probs", {8000: None}, COLOUR_STUDENT | {"pool": "svhn"}),
    Arm("dfme-50k", "cifar10", "dfme", "probs", {50_000: None}, COLOUR_STUDENT),
]


def main(settings: StudyOptions) -> dict[str, Any]:
    """Share of the victim's accuracy at each number of queries, over seeds, with the aim beside it."""
    record = settings.record("procedural", victims=VICTIMS, student="as the victim unless said")
    for arm in ARMS[:2] if settings.quick else ARMS:
        for number in settings.numbers:
            record.cell(f"{arm.dataset}/{arm.name}/seed{number}", partial(_facts, settings, arm, number))
        record.write(summary=[row for arm in ARMS if (row := _summary(record, arm))["rows"]])
    return record.content


def _facts(settings: StudyOptions, arm: Arm, seed: int) -> dict[str, Any]:
    return stolen(settings, arm, seed).facts


def stolen(settings: StudyOptions, arm: Arm, seed: int) -> StolenCopy:
    """The copy an arm makes."""
    options, stops = dict(arm.options), list(arm.aims)
    if settings.quick:
        stops, options = [200], options | _QUICK
    if arm.attack == "surrogate":
        options["data_dir"] = settings.data_dir
    victim = VICTIMS[arm.dataset]
    return steal(settings, arm.attack, arm.dataset, view=arm.view, stops=stops, seed=seed, victim=victim, **options)


_SHORT = {"steps": 60, "batch": 100, "lr": 3e-3, "schedule": "cyclic"}
_QUICK = {"committee": 2, "lessons": 500, "scout": _SHORT, "learn": _SHORT, "teach": _SHORT}


def _summary(record: Record, arm: Arm) -> dict[str, Any]:
    prefix = f"{arm.dataset}/{arm.name}/"
    cells = [cell for key, cell in record.content["cells"].items() if key.startswith(prefix)]
    rows = []
    for queries, aim in arm.aims.items():
        points = [at(cell, queries) for cell in cells]
        if points:
            share = share_over_seeds(points)
            fidelity = over_seeds([point["fidelity"] for point in points], points[0]["n"])
            met = None if aim is None else share["mean"] >= aim
            row = {"queries": queries, "accuracy_over_victim": share, "fidelity": fidelity, "aim": aim, "met": met}
            rows.append(row)
    return {"dataset": arm.dataset, "arm": arm.name, "view": arm.view, "rows": rows}


def rows(found: dict[str, Any]) -> list[Row]:
    """The share of the victim's accuracy of every arm, beside our aim."""
    told = []
    for each in found["summary"]:
        cells = [cell for key, cell in found["cells"].items() if key.startswith(f"{each['dataset']}/{each['arm']}/")]
        for row in each["rows"]:
            points = [at(cell, row["queries"]) for cell in cells]
            shares = [point["accuracy"] / point["victim_accuracy"] for point in points]
            most, what = 1 / min(point["victim_accuracy"] for point in points), f"{each['dataset']}, {each['arm']}"
            aim, n, budget = row.get("aim"), points[0]["n"], f"{row['queries']:,} queries"
            told.append(share(f"{what}: share of the victim's accuracy", shares, n, budget, goal=aim, most=most))
    return told
