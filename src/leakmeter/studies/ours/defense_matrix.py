"""Each defense against a thief who takes answers as shown, one who knows the defense, and one who uses labels alone.

Beside it stands what honest users pay. The thief is the same distillation in all three: what differs is how it reads
answers. Behind a defense that keeps the label, labels alone are worth what they are without one: they are copied once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any

from torch import Tensor

from leakmeter.data.catalogue import load
from leakmeter.defenses import ADAPTIVE, NONE, defend, parse, undoing
from leakmeter.defenses.limit import Limit
from leakmeter.evaluation.intervals import attack_mean
from leakmeter.evaluation.score import Reference, reference
from leakmeter.evaluation.utility import utility
from leakmeter.extraction.base import extract
from leakmeter.oracle.oracle import Oracle
from leakmeter.seeds import derive
from leakmeter.studies.copies import over_seeds, victim_of
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.record import Record
from leakmeter.studies.rows import Row, share
from leakmeter.studies.victims import trained
from leakmeter.training.loop import Recipe
from leakmeter.victims.load import load_victim
from leakmeter.victims.victim import Victim

DEFENSES = (
    NONE,
    "limit:500",
    "top:1",
    "rounding:1",
    "noise:0.1",
    "repeatable-noise:0.1",
    "reverse-sigmoid:0.7,0.2",
    "mad:0.8",
    "mad-argmax:1",
    "misinformation:0.9",
    "modelguard-w:1",
    "modelguard-s:1",
)
POOLS = {"digits": "digits", "mnist": "usual", "fashion-mnist": "usual"}
"""What each victim is asked: its own kind of data, or pictures that code draws."""
BUDGETS = {"digits": 1437, "mnist": 2000, "fashion-mnist": 2000}
STUDENT, TEMPERATURE = "lenet:12", 4.0
STEPS = Recipe(steps=1000, batch=32, lr=3e-3, schedule="cyclic")
"""Of training a copy: with the same time many small steps teach far more than a few large ones."""
SMALL_VICTIM = Recipe(epochs=25, batch=64, lr=3e-3, schedule="cyclic")
"""Of 1,437 digits; what suits 60,000 pictures leaves a network of them unsure."""
ATTACKERS = ("naive", "knowing", "label-only")


@dataclass(frozen=True, eq=False)
class Case:
    """One victim and one thief, whatever stands between them."""

    settings: StudyOptions
    victim: Victim
    truth: Reference
    pool: str | Tensor
    budget: int
    seed: int
    student: str = STUDENT
    recipe: Recipe = STEPS

    def stolen(self, text: str, attacker: str) -> dict[str, Any]:
        """The copy one attacker makes behind one defense."""
        defense, view = parse(text)[0], "labels" if attacker == "label-only" else "probs"
        budget = min(self.budget, defense.queries) if isinstance(defense, Limit) else self.budget
        undo = undoing(text + ADAPTIVE, view) if attacker == "knowing" else None
        server = derive(self.seed, "server")
        oracle = Oracle(defend(text, self.victim), view, budget, seed=server, truth=self.victim, undo=undo)
        recipe = self.recipe.model_copy(update={"steps": 50}) if self.settings.quick else self.recipe
        how: dict[str, Any] = {"student": self.student, "recipe": recipe, "temperature": TEMPERATURE}
        how |= {"data_dir": self.settings.data_dir, "progress": self.settings.progress}
        done = extract("surrogate", oracle, seed=self.seed, test=self.truth, pool=self.pool, **how)
        score = done.curve[-1].score
        assert score is not None
        told = score.model_dump(mode="json", include={"n", "fidelity", "fidelity_interval", "accuracy", "kl"})
        return {"queries": oracle.ledger.spent(), **told, "seconds": round(done.seconds, 1)}

    def paid(self, text: str) -> dict[str, Any]:
        """What the defense takes from honest users."""
        oracle = Oracle(defend(text, self.victim), "probs", seed=derive(self.seed, "server"))
        return utility(self.truth, oracle.serve(self.truth.x)).model_dump(mode="json")


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `defense-matrix.json` into `out`."""
    about = {"student": STUDENT, "temperature": TEMPERATURE, "recipe": STEPS.model_dump(exclude_defaults=True)}
    record = settings.record("defense-matrix", budgets=BUDGETS, attack="surrogate", victim="lenet", **about)
    for seed in settings.numbers:
        for dataset in ("digits",) if settings.quick else POOLS:
            case = _case(settings, dataset, POOLS[dataset], seed)
            measured(record, f"{dataset}/{case.pool}", case)
            record.write(table=table(record.content["cells"]))
    return record.content


def measured(record: Record, place: str, case: Case) -> None:
    """Every defense before one victim; `place` is the victim's name, a stroke and where the queries come from."""
    for text in DEFENSES:
        for name, measure in _cells(case, text):
            record.cell(f"{place}/{text}/{name}/seed{case.seed}", measure)


def _case(settings: StudyOptions, dataset: str, pool: str, seed: int) -> Case:
    test = load(dataset, "test", settings.data_dir)
    if dataset == "digits":
        network = trained(dataset, "lenet", seed=seed, recipe=SMALL_VICTIM, progress=settings.progress)
        victim = load_victim(network, input_shape=test.input_shape, low=0.0, high=1.0, device=settings.device)
    else:
        victim = victim_of(settings, dataset, "lenet", seed)
    budget = 200 if settings.quick else BUDGETS[dataset]
    return Case(settings, victim, reference(Oracle(victim, "labels"), test), pool, budget, seed)


def _cells(case: Case, text: str) -> list[tuple[str, Callable[[], dict[str, Any]]]]:
    """What has to be measured behind one defense."""
    defense = parse(text)[0]
    names = ["naive"]
    if defense.undoable:
        names.append("knowing")
    if text == NONE or isinstance(defense, Limit) or not defense.keeps_label:
        names.append("label-only")
    return [("honest", partial(case.paid, text)), *((name, partial(case.stolen, text, name)) for name in names)]


def table(cells: dict[str, Any]) -> list[dict[str, Any]]:
    """One row for each victim, pool and defense: what each attacker reaches over seeds, and what honest users pay.

    A seed counts where all of that was measured: a run may have been stopped in the middle of one.
    """
    groups: dict[tuple[str, str, str], dict[str, dict[str, Any]]] = {}
    for key, cell in cells.items():
        dataset, pool, rest = key.split("/", 2)
        text, name, seed = rest.rsplit("/", 2)
        groups.setdefault((dataset, pool, text), {}).setdefault(name, {})[seed] = cell
    fewer = {place[:2]: found for place, found in groups.items() if isinstance(parse(place[2])[0], Limit)}
    rows = [
        _row(place, found, groups[*place[:2], NONE], fewer.get(place[:2], {}) if place[2] == NONE else {})
        for place, found in groups.items()
    ]
    return [row for row in rows if row is not None]


def _row(
    place: tuple[str, str, str],
    found: dict[str, dict[str, Any]],
    bare: dict[str, dict[str, Any]],
    fewer: dict[str, dict[str, Any]],
) -> dict[str, Any] | None:
    """The best of a seed counts labels alone, and of `none` whoever asked fewer queries: one who may ask more can."""
    dataset, pool, text = place
    measured = {"label-only": bare.get("label-only", {}), **found}
    whole = set.intersection(*(set(cells) for cells in measured.values()))
    seeds = [seed for seed in measured["honest"] if seed in whole]
    if not seeds or "naive" not in found:
        return None
    copies = {name: [measured[name][seed] for seed in seeds] for name in ATTACKERS if name in measured}
    reached = {name: [cell["fidelity"] for cell in cells] for name, cells in copies.items()}
    asked_less = [[cells[seed] for cells in fewer.values() if seed in cells] for seed in seeds]
    less = [[cell["fidelity"] for cell in cells if "fidelity" in cell] for cells in asked_less]
    best = [max([*tries, *more]) for *tries, more in zip(*reached.values(), less, strict=True)]
    honest = [found["honest"][seed] for seed in seeds]
    return {
        "dataset": dataset,
        "pool": pool,
        "defense": text,
        "seeds": len(best),
        "fidelity": {name: over_seeds(rates, copies[name][0]["n"]) for name, rates in reached.items()},
        "best": {"mean": fmean(best), "interval": attack_mean(best, copies["naive"][0]["n"]).model_dump()},
        "kl": {name: fmean(cell["kl"] for cell in cells) for name, cells in copies.items()},
        "accuracy_loss": fmean(cell["accuracy_loss"] for cell in honest),
        "distortion": fmean(cell["distortion"] for cell in honest),
    }


def rows(found: dict[str, Any]) -> list[Row]:
    """The best thief's fidelity under every defense."""
    return best_thief(found, found["budgets"])


def best_thief(found: dict[str, Any], budgets: dict[str, int]) -> list[Row]:
    """A line for every defense; how many queries there were for each dataset."""
    told = []
    for row in found["table"]:
        case = f"{row['dataset']}/{row['pool']}/{row['defense']}/"
        honest = next(cell for key, cell in found["cells"].items() if key.startswith(f"{case}honest/"))
        values = max((each["values"] for each in row["fidelity"].values()), key=fmean)
        budget = f"{budgets[row['dataset']]:,} queries, costs honest users {row['accuracy_loss']:.1%} accuracy"
        told.append(share(f"{case[:-1]}: the best thief's fidelity", values, honest["n"], budget))
    return told
