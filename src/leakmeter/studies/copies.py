"""What the extraction studies share: one attack on one trained victim as a cell, and means over seeds."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

from torch import nn

from leakmeter.data.catalogue import load
from leakmeter.data.places import cache
from leakmeter.evaluation.intervals import attack_mean, median_interval
from leakmeter.extraction.base import extract
from leakmeter.extraction.findings import Findings
from leakmeter.files import write_atomic
from leakmeter.models.saved import load_network, save_network
from leakmeter.oracle.oracle import Oracle
from leakmeter.report.sheet import write_sheet
from leakmeter.runs.run import Run
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.provenance import fingerprint
from leakmeter.studies.strangers import resnet20
from leakmeter.studies.victims import LENET, trained
from leakmeter.training.loop import Recipe
from leakmeter.victims.load import load_victim
from leakmeter.victims.victim import Victim

_RECIPES = {"small-conv": Recipe(epochs=20, batch=128, lr=5e-3, schedule="cyclic")}


@dataclass(frozen=True, eq=False)
class StolenCopy:
    """What one extraction brought: its facts for a study's JSON, and the network."""

    facts: dict[str, Any]
    network: nn.Module
    sheet: Path
    """A picture of its last queries, where they are pictures."""


def network_of(settings: StudyOptions, dataset: str, model: str, seed: int) -> nn.Module:
    """The network trained on the dataset's train split; `resnet20` others trained on CIFAR-10, for every seed."""
    if model == "resnet20":
        return resnet20()
    recipe = Recipe(steps=200, batch=128, lr=3e-3) if settings.quick else _RECIPES.get(model.partition(":")[0], LENET)
    return trained(dataset, model, seed=seed, recipe=recipe, data_dir=settings.data_dir, progress=settings.progress)


def victim_of(settings: StudyOptions, dataset: str, model: str, seed: int) -> Victim:
    """That network behind its API."""
    shape = load(dataset, "test", settings.data_dir).input_shape
    network = network_of(settings, dataset, model, seed)
    return load_victim(network, input_shape=shape, low=0.0, high=1.0, device=settings.device)


def steal(
    settings: StudyOptions,
    attack: str,
    dataset: str,
    *,
    view: str,
    stops: Sequence[int],
    seed: int,
    victim: str = "lenet",
    **options: Any,
) -> StolenCopy:
    """One extraction, scored at every stop on the dataset's test split; kept in the user's cache.

    A copy is known by what was asked for and by the code that made it. One that was killed goes on where it stopped.
    """
    plain = {key: value for key, value in options.items() if key != "data_dir"}
    about = {"attack": attack, "dataset": dataset, "victim": victim, "view": view, "seed": seed, "options": plain}
    told = json.dumps([fingerprint(), about, list(stops), settings.quick], default=str)
    key = hashlib.sha256(told.encode()).hexdigest()[:16]
    place = cache() / "copies" / f"{dataset}-{attack}-{key}"
    facts, weights, sheet = (place.with_name(place.name + end) for end in (".json", ".safetensors", ".png"))
    if facts.exists():
        return StolenCopy(json.loads(facts.read_text()), load_network(weights), sheet)
    run = Run.enter(place, {"name": place.name})
    with run.held(), closing(run.ledger(max(stops))) as ledger, closing(run.answers()) as log:
        oracle = Oracle(victim_of(settings, dataset, victim, seed), view=view, ledger=ledger, log=log)
        done = extract(
            attack,
            oracle,
            seed=seed,
            test=load(dataset, "test", settings.data_dir),
            stops=stops,
            device=settings.device,
            progress=settings.progress,
            checkpoints=run.checkpoint,
            **options,
        )
    curve = [{"queries": point.queries, **described(point.score)} for point in done.curve]
    made = {**about, "seconds": round(done.seconds, 1), "notes": done.notes, "curve": curve}
    save_network(done.substitute, weights, done.student, oracle.spec.input_shape, oracle.spec.classes)
    if done.queries is not None and done.queries.dim() == 4:
        write_sheet(done.queries, oracle.spec, sheet)
    write_atomic(facts, json.dumps(made, default=str).encode())
    shutil.rmtree(place)
    return StolenCopy(made, done.substitute, sheet)


def at(cell: dict[str, Any], queries: int) -> dict[str, Any]:
    """The last point of the cell's curve that cost no more than `queries`."""
    return [point for point in cell["curve"] if point["queries"] <= queries][-1]  # type: ignore[no-any-return]


def collapsed(cell: dict[str, Any]) -> bool:
    """Whether a generator's last queries got answers of a few classes only."""
    return Findings(class_entropy=cell["notes"]["answers"][-1]["class_entropy"]).collapsed


def over_seeds(rates: list[float], inputs: int, most: float = 1.0) -> dict[str, Any]:
    """Mean over seeds of what lies between 0 and `most`, measured on so many inputs; its interval; the values."""
    found = attack_mean([min(rate / most, 1.0) for rate in rates], inputs)
    interval = found.model_copy(update={"low": most * found.low, "high": most * found.high})
    return {"mean": fmean(rates), "interval": interval.model_dump(), "values": rates}


def share_over_seeds(scores: list[dict[str, Any]]) -> dict[str, Any]:
    """The same of accuracy as a share of the victim's, which may pass 1 where a victim errs."""
    most = 1 / min(score["victim_accuracy"] for score in scores)
    return over_seeds([score["accuracy"] / score["victim_accuracy"] for score in scores], scores[0]["n"], most)


def median_over_seeds(values: list[float]) -> dict[str, Any]:
    """Of what has no bounds: the median over seeds, its interval by ranks with the confidence it has, the values."""
    return {"median": median(values), "interval": median_interval(values, values).model_dump(), "values": values}


def described(score: Any) -> dict[str, Any]:
    """A score as facts, with the share of the victim's accuracy."""
    facts: dict[str, Any] = score.model_dump(mode="json")
    facts["accuracy_over_victim"] = facts["accuracy"] / facts["victim_accuracy"]
    return facts
