"""What the studies of Milli et al. share: accuracy against queries, cell by cell, with the paper's words beside it.

A cell is one attack: a panel (victim, student, source of queries), an arm (what the API shows), a number of queries
and a seed. Cells are written as they are measured; a study that was stopped goes on with those that are missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from statistics import fmean
from typing import Any

import torch

from leakmeter.extraction.base import extract
from leakmeter.oracle.oracle import Oracle
from leakmeter.seeds import stream
from leakmeter.studies.milli._table import GRADIENTS, MEMBERSHIP, SMOOTHGRAD, SMOOTHGRAD_1000, Claim, Measured, draw
from leakmeter.studies.milli._victims import Split, paper_victim, shared_out
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import Row
from leakmeter.training.loop import Recipe

QUERIES = (1, 10, 100, 1_000, 10_000)
SIGMA = 0.1
"""SmoothGrad's noise: a third of the standard deviation of MNIST's pixels (0.31 where black is 0 and white is 1)."""
SPREAD = 0.31
VIEWS = {
    GRADIENTS: "logits+gradient",
    SMOOTHGRAD: f"logits+smoothgrad:10,{SIGMA}",
    SMOOTHGRAD_1000: f"logits+smoothgrad:10,{1000 * SPREAD:g}",
    MEMBERSHIP: "probs",
}
"""Appendix D takes noise of 1000 times the spread of MNIST's images: gradients from far outside the data."""
DATA, GAUSSIAN = "data", "gaussian"
GPU_ONLY = dict.fromkeys(VIEWS, 0)
_QUICK = 100  # queries of a rehearsal
_CONVOLUTIONAL = {
    GRADIENTS: Recipe(steps=1000, batch=16, lr=5e-3, schedule="cyclic"),
    SMOOTHGRAD: Recipe(steps=1000, batch=16, lr=5e-3, schedule="cyclic"),
    SMOOTHGRAD_1000: Recipe(steps=1000, batch=16, lr=5e-3, schedule="cyclic"),
    MEMBERSHIP: Recipe(steps=1500, batch=64, lr=2e-3, schedule="cyclic"),
}
_DENSE = {
    GRADIENTS: Recipe(steps=3000, batch=16, lr=5e-3, schedule="cyclic"),
    SMOOTHGRAD: Recipe(steps=3000, batch=16, lr=5e-3, schedule="cyclic"),
    SMOOTHGRAD_1000: Recipe(steps=3000, batch=16, lr=5e-3, schedule="cyclic"),
    MEMBERSHIP: Recipe(steps=3000, batch=200, lr=2e-3, schedule="cyclic"),
}
RECIPES = {"linear": _DENSE, "mlp": _DENSE}
"""How a student trains, by model and arm; the others, which are slower, as `_CONVOLUTIONAL` says."""
_REHEARSAL = Recipe(steps=60, batch=16, lr=5e-3, schedule="cyclic")


@dataclass(frozen=True)
class Panel:
    """One picture of a figure: who is copied into what, with which queries."""

    data: str
    victim: str
    student: str
    source: str = DATA
    """`data`: the attacker's own images of the task; `gaussian`: standard normal pixels (section 5.3)."""
    most: dict[str, int] = field(default_factory=dict)
    """The most queries of an arm that a CPU can do in reasonable time; 0: none."""
    steps: int | None = None
    """Of every student; None: as its kind and the arm have it."""

    @property
    def title(self) -> str:
        """Names the panel in figures, tables and files."""
        student = self.student.rpartition(".")[2].partition(":")[2] if "." in self.student else self.student
        copied = self.victim if self.victim == student else f"{self.victim} copied by {student}"
        return f"{self.data} {copied}" + (", gaussian queries" if self.source == GAUSSIAN else "")


class Study:
    """Runs panels, cell by cell, and keeps what was measured in `<out>/<name>.json`."""

    def __init__(self, name: str, settings: StudyOptions) -> None:
        self.name, self.settings = name, settings
        self.record = settings.record(name, views=VIEWS, seeds=[*settings.numbers])
        self._splits: dict[str, Split] = {}

    def run(self, panels: Sequence[Panel], claims: Sequence[Claim]) -> dict[str, Any]:
        """Measures every missing cell; the table and the figure are written anew after each panel."""
        if self.settings.quick:
            panels = _on_digits(panels)
        for panel in panels:
            for arm in VIEWS:
                for n in QUERIES:
                    if self._can(panel, arm, n):
                        for seed in self.settings.numbers:
                            self.record.cell(_key(panel, arm, n, seed), partial(self._cell, panel, arm, n, seed))
            self._report(panels, claims)
        return self.record.content

    def _report(self, panels: Sequence[Panel], claims: Sequence[Claim]) -> None:
        measured = _of_panels(self.record.content["cells"], panels, self.settings.numbers)
        draw({title: found for title, found in measured.items() if found.any}, self.settings.out / f"{self.name}.png")
        todo = [(panel, arm, n) for panel in panels for arm in VIEWS for n in QUERIES]
        self.record.write(
            not_run=[f"{panel.title}: {arm} at {n:,}" for panel, arm, n in todo if not self._can(panel, arm, n)],
            table=[
                {"panel": claim.panel, "paper": claim.paper, "measured": claim.measure(measured[claim.panel])[0]}
                for claim in claims
                if claim.panel in measured
            ],
        )

    def _can(self, panel: Panel, arm: str, n: int) -> bool:
        """Whether a cell is within reach: of the attacker's data, and of the time a CPU has."""
        if self.settings.quick and n > _QUICK:
            return False
        if torch.device(self.settings.device).type == "cpu" and n > panel.most.get(arm, n):
            return False
        return panel.source == GAUSSIAN or n <= len(self._split(panel.data).attacker)

    def _cell(self, panel: Panel, arm: str, n: int, seed: int) -> dict[str, Any]:
        self.settings.progress.say(_key(panel, arm, n, seed))
        split = self._split(panel.data)
        victim = paper_victim(self.settings, panel.data, panel.victim, split, seed)
        oracle = Oracle(victim, VIEWS[arm], n, seed=seed)
        rows = torch.randperm(len(split.attacker), generator=stream(seed, "queries"))[:n]
        options: dict[str, Any] = {} if arm == MEMBERSHIP else {"joint": True}
        made = extract(
            "surrogate" if arm == MEMBERSHIP else "gradients",
            oracle,
            seed=seed,
            test=split.test,
            device=self.settings.device,
            progress=self.settings.progress,
            pool=GAUSSIAN if panel.source == GAUSSIAN else split.attacker.x[rows],
            student=panel.student,
            recipe=self._recipe(panel, arm),
            **options,
        )
        score = made.curve[-1].score
        assert score is not None
        measured = score.model_dump(include={"accuracy", "fidelity", "victim_accuracy", "kl", "n"})
        spent = asdict(oracle.ledger.entry("attack"))
        return {
            **measured,
            "recipe": self._recipe(panel, arm).model_dump(exclude_defaults=True),
            "seconds": round(made.seconds, 1),
            **spent,
        }

    def _recipe(self, panel: Panel, arm: str) -> Recipe:
        if self.settings.quick:
            return _REHEARSAL
        recipe = RECIPES.get(panel.student, _CONVOLUTIONAL)[arm]
        return recipe if panel.steps is None else recipe.model_copy(update={"steps": panel.steps})

    def _split(self, data: str) -> Split:
        if data not in self._splits:
            self._splits[data] = shared_out(data, self.settings.data_dir)
        return self._splits[data]


def told(found: dict[str, Any], panels: Sequence[Panel], claims: Sequence[Claim]) -> list[Row]:
    """Each claim beside what the record holds of it."""
    if any(key.startswith("digits") for key in found["cells"]):
        panels = _on_digits(panels)
    measured = _of_panels(found["cells"], panels, found["seeds"])
    return [claim.row(measured[claim.panel]) for claim in claims if claim.panel in measured]


def _of_panels(cells: dict[str, Any], panels: Sequence[Panel], seeds: Sequence[int]) -> dict[str, Measured]:
    return {panel.title: _measured(cells, panel, seeds) for panel in panels}


def _measured(cells: dict[str, Any], panel: Panel, seeds: Sequence[int]) -> Measured:
    """The points of a panel that every seed has."""
    arms: dict[str, dict[int, list[float]]] = {arm: {} for arm in VIEWS}
    victims, inputs = [float("nan")], 0
    for arm, points in arms.items():
        for n in QUERIES:
            keys = [_key(panel, arm, n, seed) for seed in seeds]
            if all(key in cells for key in keys):
                points[n] = [cells[key]["accuracy"] for key in keys]
                victims = [cells[key]["victim_accuracy"] for key in keys]
                inputs = cells[keys[0]]["n"]
    return Measured(fmean(victims), arms, inputs)


def _on_digits(panels: Sequence[Panel]) -> list[Panel]:
    """Panels moved to the digits that come with scikit-learn, but for those a CPU cannot do: a rehearsal, called so."""
    small = [panel for panel in panels if panel.most != GPU_ONLY and panel.victim != "resnet20"]
    moved = [replace(panel, data="digits", most={}) for panel in small]
    return list({panel.title: panel for panel in moved}.values())


def _key(panel: Panel, arm: str, n: int, seed: int) -> str:
    return f"{panel.title} | {arm} | {n} | seed {seed}"
