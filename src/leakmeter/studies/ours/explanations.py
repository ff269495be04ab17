"""Which explanation may an owner show? Every kind and protection: what it makes a copy cost, and what it still tells.

Three victims: a network of a table, boosted trees of a table, a convolutional network of pictures (`_panels.py`). For
each explanation one thief reads it, unless its own held-out answers say that this does not help (of trees a second one
where it can), and one is shown none; what counts is the best of them after so many queries. Usefulness is measured on
the victim itself (`evaluation/usefulness.py`). Pictures are dear: they have fewer stops and fewer protections, and come
last. Several processes may share the work: each takes a victim and seed that no other is at.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

from leakmeter.errors import LeakmeterError
from leakmeter.evaluation.cheaper import cheaper
from leakmeter.evaluation.crossing import Curve, crossing
from leakmeter.evaluation.usefulness import usefulness
from leakmeter.extraction.base import ATTACKS, extract
from leakmeter.oracle.oracle import Oracle
from leakmeter.oracle.view import View
from leakmeter.studies.copies import median_over_seeds, over_seeds
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.ours._panels import REHEARSAL, Panel, pictures, table, trees
from leakmeter.studies.ours._pareto import FEWEST, NONE, draw, leak_of
from leakmeter.studies.ours._shown import markdown
from leakmeter.studies.rows import Row, share
from leakmeter.training.loop import Recipe

SLOPES = ("gradient", "smoothgrad:10,0.1", "gradxinput", "integrated:10")
ASKED = ("occlusion", "shap:2", "lime:120", "reasons:4", "counterfactual")
HIDDEN = tuple(f"gradient/{each}" for each in ("top:5", "sign", "round:1", "noise:1.0", "abs"))
ROWS = {
    "pictures": (*SLOPES, "gradcam", *ASKED, *(each for each in HIDDEN if each != "gradient/round:1")),
    "table": (*SLOPES, *ASKED, *HIDDEN, "shap:2/top:3", "shap:2/sign"),
    "trees": (*ASKED, "shap:2/top:3", "shap:2/sign", "shap:2/abs", "shap:2/noise:1.0"),
}
LEVELS = (0.9, 0.95)
MOST = 1000
_OFTEN = (5, FEWEST, 20, 50, 100, MOST)
STOPS = {"table": _OFTEN, "trees": _OFTEN, "pictures": (FEWEST, 100)}
"""Queries at which thieves are looked at."""
BLIND = (300, MOST)
"""Where who is shown nothing is looked at besides."""
STEPS = {"table": 400, "trees": 400, "pictures": 250}
"""Of the answers, and then of the explanations; pictures are copied into a wide network, which learns in fewer."""
TEST, INPUTS = 2000, 50
"""Test inputs on which copies are scored, and usefulness is measured."""


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `explanations.json` and `.png`."""
    record = settings.record("explanations", stops=STOPS, rows=ROWS, steps=STEPS, seeds=[*settings.numbers])
    study, panels = _Study(settings, record), _panels(settings)
    for name, make in panels.items():
        for seed in settings.numbers:
            with record.claimed(f"{name} {seed}") as mine:
                if mine:
                    study.seed(name, make, seed)
            study.tell([*panels])
    return record.content


def _panels(settings: StudyOptions) -> dict[str, Callable[[int], Panel]]:
    first, second = (REHEARSAL, REHEARSAL) if settings.quick else ("adult", "compas")
    return {
        "table": partial(table, settings, first),
        "trees": partial(trees, settings, second),
        "pictures": partial(pictures, settings),
    }


class _Study:
    def __init__(self, settings: StudyOptions, record: Any) -> None:
        self.settings, self.record = settings, record

    def seed(self, name: str, make: Callable[[int], Panel], seed: int) -> None:
        """One victim with one seed: a cell for each explanation."""
        panel = None
        for row in self._rows(name):
            key = _key(name, row, seed)
            if key not in self.record.content["cells"]:
                panel = panel or make(seed)
                self.settings.progress.say(key)
                self.record.cell(key, partial(self._cell, name, panel, row, seed))

    def tell(self, names: list[str]) -> None:
        """Writes the tables and the picture: a row for each explanation, of the seeds of which there are all rows."""
        cells = self.record.write()["cells"]
        tables = {}
        for name in names:
            rows = self._rows(name)
            whole = [seed for seed in self.settings.numbers if all(_key(name, row, seed) in cells for row in rows)]
            if whole:
                tables[name] = {row: self._row(name, row, whole) for row in rows}
        self.record.write(table=tables, shown={name: markdown(rows) for name, rows in tables.items()})
        if tables:
            draw(tables, f"fidelity of the copy after {FEWEST} queries", self.settings.out / "explanations.png")

    def _rows(self, name: str) -> tuple[str, ...]:
        return (NONE, *(ROWS[name][::4] if self.settings.quick else ROWS[name]))

    def _stops(self, name: str, row: str) -> tuple[int, ...]:
        if self.settings.quick:
            return FEWEST, 40
        return tuple(sorted({*STOPS[name], *BLIND})) if row == NONE else STOPS[name]

    def _cell(self, name: str, panel: Panel, row: str, seed: int) -> dict[str, Any]:
        view, stops = View.parse("probs" if row == NONE else f"probs+{row}"), self._stops(name, row)
        started = time.process_time()
        told = {attack: self._steal(attack, name, panel, view, stops, seed) for attack in _thieves(panel, view)}
        best = reduce(_better, ([*map(tuple, each["curve"])] for each in told.values()))
        x = panel.test[0][:INPUTS]
        useful = None if row == NONE else usefulness(panel.victim, str(view), x, seed)
        return {
            "n": len(panel.test[0][:TEST]),
            "curve": best,
            "thieves": told,
            "useful": None if useful is None else useful.model_dump() | {"gap": useful.gap},
            "work": 0 if view.explanation is None else view.explanation.work(panel.victim),
            "cpu_seconds": round(time.process_time() - started, 1),
        }

    def _steal(
        self, attack: str, name: str, panel: Panel, view: View, stops: tuple[int, ...], seed: int
    ) -> dict[str, Any]:
        """What one thief gets, and where it left the explanations aside."""
        oracle, test = Oracle(panel.victim, view, stops[-1], seed=seed), (panel.test[0][:TEST], panel.test[1][:TEST])
        pool, options = panel.pool[: stops[-1]], self._options(attack, name, panel)
        done = extract(attack, oracle, seed=seed, test=test, stops=stops, pool=pool, **options)
        return {
            "curve": [[point.queries, point.score.fidelity] for point in done.curve if point.score is not None],
            "ignored": done.notes.get("explanations ignored at", []),
        }

    def _options(self, attack: str, name: str, panel: Panel) -> dict[str, Any]:
        """How a thief learns: whoever reads answers alone for as many steps as a reader in all, and more."""
        if attack == "tabular":
            return {"effort": 0.2 if self.settings.quick else 1.0}
        steps = 60 if self.settings.quick else STEPS[name]
        longer = Recipe(steps=5 * steps, batch=64, lr=2e-3, schedule="cyclic")
        shorter = Recipe(steps=steps, batch=16, lr=5e-3, schedule="cyclic")
        return {"recipe": longer if attack == panel.blind else shorter, "student": panel.student}

    def _row(self, name: str, row: str, seeds: list[int]) -> dict[str, Any]:
        cells = self.record.content["cells"]
        blind = [_curve(cells[_key(name, NONE, seed)]) for seed in seeds]
        mine = [cells[_key(name, row, seed)] for seed in seeds]
        held = [_better(_curve(cell), other) for cell, other in zip(mine, blind, strict=True)]
        facts: dict[str, Any] = {
            "seeds": len(seeds),
            "fidelity": {
                stop: over_seeds([dict(curve)[stop] for curve in held], mine[0]["n"]) for stop in dict(_curve(mine[0]))
            },
            "queries": {f"{level:.0%}": [crossing(curve, level) for curve in held] for level in LEVELS},
            "cheaper": {f"{level:.0%}": _factor(blind, held, level) for level in LEVELS},
            "work": mine[0]["work"],
        }
        useful = [cell["useful"] for cell in mine if cell["useful"] is not None]
        keys = useful[0] if useful else ()
        facts["useful"] = {key: median_over_seeds([each[key] for each in useful]) for key in keys}
        return facts


def _key(name: str, row: str, seed: int) -> str:
    return f"{name} | {row} | seed {seed}"


def _thieves(panel: Panel, view: View) -> list[str]:
    """The attacks that read this view."""
    if view.explanation is None:
        return [panel.blind]
    reader = "gradients" if view.explanation.a_map else "counterfactual"
    return [reader, *([panel.blind] if ATTACKS[panel.blind].reads(str(view)) else [])]


def _curve(cell: dict[str, Any]) -> list[tuple[int, float]]:
    return [(queries, fidelity) for queries, fidelity in cell["curve"]]


def _better(reader: Curve, blind: Curve) -> list[tuple[int, float]]:
    """Whoever is shown an explanation may ignore it."""
    read, ignored = dict(reader), dict(blind)
    return [(queries, max(read.get(queries, 0.0), ignored.get(queries, 0.0))) for queries in sorted(read | ignored)]


def _factor(plain: Sequence[Curve], explained: Sequence[Curve], level: float) -> dict[str, Any] | None:
    """How many times cheaper a copy of that fidelity is; None: some curve never reaches it, or all begin above it."""
    try:
        return cheaper(plain, explained, level).model_dump(mode="json")
    except LeakmeterError:
        return None


def rows(found: dict[str, Any]) -> list[Row]:
    """Fidelity of a copy after the fewest answers, by what is shown beside them."""
    told = []
    for name, lines in found["table"].items():
        n = next(cell["n"] for key, cell in found["cells"].items() if key.startswith(f"{name} | "))
        for row, facts in lines.items():
            fidelity = leak_of(facts)
            told.append(share(f"{name} | {row}: fidelity", fidelity["values"], n, f"{FEWEST} queries"))
    return told
