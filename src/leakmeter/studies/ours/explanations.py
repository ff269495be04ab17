"""Which explanation may an owner show? Every kind and protection: what it makes a copy cost, and what it still tells.

Three victims: a convolutional network of pictures, a network of a table, boosted trees of a table (`_panels.py`). For
each explanation one thief reads it and one ignores it; what counts is the better of the two after so many queries.
Usefulness is measured on the victim itself (`evaluation/usefulness.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from leakmeter.errors import LeakmeterError
from leakmeter.evaluation.cheaper import cheaper
from leakmeter.evaluation.crossing import Curve, crossing
from leakmeter.evaluation.usefulness import usefulness
from leakmeter.extraction.base import extract
from leakmeter.oracle.oracle import Oracle
from leakmeter.oracle.view import View
from leakmeter.studies.copies import median_over_seeds, over_seeds
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.ours._panels import REHEARSAL, Panel, pictures, table, trees
from leakmeter.studies.ours._pareto import draw
from leakmeter.studies.rows import Row, by_group, share
from leakmeter.training.loop import Recipe

NONE = "nothing"
SLOPES = ("gradient", "smoothgrad:10,0.1", "gradxinput", "integrated:10")
ASKED = ("occlusion", "shap:2", "lime:120", "reasons:4", "counterfactual")
HIDDEN = tuple(f"gradient/{each}" for each in ("top:5", "sign", "round:1", "noise:1.0", "abs"))
ROWS = {
    "pictures": (*SLOPES, "gradcam", *ASKED, *HIDDEN, "integrated:10/abs", "gradcam/top:5"),
    "table": (*SLOPES, *ASKED, *HIDDEN, "shap:2/top:3", "shap:2/sign"),
    "trees": (*ASKED, "shap:2/top:3", "shap:2/sign", "shap:2/abs", "shap:2/noise:1.0"),
}
LEVELS = (0.9, 0.95)
INPUTS = 100
"""Test inputs on which usefulness is measured."""


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `explanations.json` and `.png`."""
    stops = (10, 40) if settings.quick else (10, 100, 1000)
    record = settings.record("explanations", stops=stops, rows=ROWS, seeds=[*settings.numbers])
    study = _Study(settings, record, stops)
    tables: dict[str, Any] = {}
    for name, make in _panels(settings).items():
        for count, seed in enumerate(settings.numbers, 1):
            study.seed(name, make, seed)
            tables[name] = study.table(name, [*settings.numbers][:count])
            record.write(table=tables)
            draw(tables, f"fidelity of the copy after {stops[0]} queries", settings.out / "explanations.png")
    return record.content


def _panels(settings: StudyOptions) -> dict[str, Callable[[int], Panel]]:
    first, second = (REHEARSAL, REHEARSAL) if settings.quick else ("adult", "compas")
    return {
        "table": partial(table, settings, first),
        "trees": partial(trees, settings, second),
        "pictures": partial(pictures, settings),
    }


class _Study:
    def __init__(self, settings: StudyOptions, record: Any, stops: tuple[int, ...]) -> None:
        self.settings, self.record, self.stops = settings, record, stops
        self.recipe = Recipe(steps=60 if settings.quick else 1000, batch=16, lr=5e-3, schedule="cyclic")

    def seed(self, name: str, make: Callable[[int], Panel], seed: int) -> None:
        """One victim with one seed: a cell for each explanation."""
        panel = None
        for row in self._rows(name):
            key = f"{name} | {row} | seed {seed}"
            if key not in self.record.content["cells"]:
                panel = panel or make(seed)
                self.settings.progress.say(key)
                self.record.cell(key, partial(self._cell, panel, row, seed))

    def table(self, name: str, seeds: list[int]) -> dict[str, Any]:
        """Of one kind of victim, a row for each explanation, over the seeds done so far."""
        return {row: self._row(name, row, seeds) for row in self._rows(name)}

    def _rows(self, name: str) -> tuple[str, ...]:
        return (NONE, *(ROWS[name][::4] if self.settings.quick else ROWS[name]))

    def _cell(self, panel: Panel, row: str, seed: int) -> dict[str, Any]:
        view = View.parse("probs" if row == NONE else f"probs+{row}")
        attack, options = self._thief(panel, view)
        oracle = Oracle(panel.victim, view, self.stops[-1], seed=seed)
        pool = panel.pool[: self.stops[-1]]
        done = extract(attack, oracle, seed=seed, test=panel.test, stops=self.stops, pool=pool, **options)
        x = panel.test[0][:INPUTS]
        useful = None if row == NONE else usefulness(panel.victim, str(view), x, seed)
        entry = oracle.ledger.entry("attack")
        return {
            "n": len(panel.test[0]),
            "curve": [[point.queries, point.score.fidelity] for point in done.curve if point.score is not None],
            "useful": None if useful is None else useful.model_dump() | {"gap": useful.gap},
            "work": entry.work / max(1, entry.explanations),
            "seconds": round(done.seconds, 1),
        }

    def _thief(self, panel: Panel, view: View) -> tuple[str, dict[str, Any]]:
        """Who reads this view, and how it learns."""
        if view.explanation is not None:
            attack = "gradients" if view.explanation.a_map else "counterfactual"
            return attack, {"recipe": self.recipe, "student": panel.student}
        if panel.blind == "tabular":
            return panel.blind, {"effort": 0.2 if self.settings.quick else 1.0}
        longer = Recipe(steps=2 * (self.recipe.steps or 0), batch=64, lr=2e-3, schedule="cyclic")
        return panel.blind, {"recipe": longer, "student": panel.student}

    def _row(self, name: str, row: str, seeds: list[int]) -> dict[str, Any]:
        cells = self.record.content["cells"]
        blind = [_curve(cells[f"{name} | {NONE} | seed {seed}"]) for seed in seeds]
        mine = [cells[f"{name} | {row} | seed {seed}"] for seed in seeds]
        held = [_better(_curve(cell), other) for cell, other in zip(mine, blind, strict=True)]
        facts: dict[str, Any] = {
            "seeds": len(seeds),
            "fidelity": {
                stop: over_seeds([dict(curve)[stop] for curve in held], mine[0]["n"]) for stop in dict(held[0])
            },
            "queries": {f"{level:.0%}": [crossing(curve, level) for curve in held] for level in LEVELS},
            "cheaper": _factor(blind, held),
            "work": mine[0]["work"],
        }
        useful = [cell["useful"] for cell in mine if cell["useful"] is not None]
        keys = useful[0] if useful else ()
        facts["useful"] = {key: median_over_seeds([each[key] for each in useful]) for key in keys}
        return facts


def _curve(cell: dict[str, Any]) -> list[tuple[int, float]]:
    return [(queries, fidelity) for queries, fidelity in cell["curve"]]


def _better(reader: Curve, blind: Curve) -> list[tuple[int, float]]:
    """Whoever is shown an explanation may ignore it."""
    ignored = dict(blind)
    return [(queries, max(fidelity, ignored.get(queries, 0.0))) for queries, fidelity in reader]


def _factor(plain: list[Curve] | list[list[tuple[int, float]]], explained: Any) -> Any:
    """How many times cheaper a 90 % copy is, or the best that all made; None: cannot be told."""
    for level in (LEVELS[0], None):
        try:
            return cheaper(plain, explained, level).model_dump(mode="json")
        except LeakmeterError:
            continue
    return None


def rows(found: dict[str, Any]) -> list[Row]:
    """Fidelity of a copy after the fewest answers, by what is shown beside them."""
    queries = found["stops"][0]
    return [
        share(f"{key}: fidelity", [cell["curve"][0][1] for cell in cells], cells[0]["n"], f"{queries} queries")
        for key, cells in by_group(found["cells"], " | seed").items()
    ]
