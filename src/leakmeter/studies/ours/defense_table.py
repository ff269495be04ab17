"""The matrix of defenses before a model of a table: a network on Adult, asked by a thief with rows of its own."""

from __future__ import annotations

from typing import Any

from leakmeter.evaluation.score import reference
from leakmeter.oracle.oracle import Oracle
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.ours._panels import REHEARSAL
from leakmeter.studies.ours._panels import table as panel_of
from leakmeter.studies.ours.defense_matrix import TEMPERATURE, Case, best_thief, measured, table
from leakmeter.studies.rows import Row
from leakmeter.training.loop import Recipe

BUDGET, TEST, STUDENT = 1000, 1000, "mlp:256"
STEPS = Recipe(steps=2000, batch=32, lr=3e-3, schedule="cyclic")


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `defense-table.json` into `out`."""
    name = REHEARSAL if settings.quick else "adult"
    about = {"student": STUDENT, "temperature": TEMPERATURE, "recipe": STEPS.model_dump(exclude_defaults=True)}
    record = settings.record("defense-table", budget=BUDGET, attack="surrogate", test=TEST, **about)
    for seed in settings.numbers:
        panel = panel_of(settings, name, seed)
        test = (panel.test[0][:TEST], panel.test[1][:TEST])
        truth = reference(Oracle(panel.victim, "labels"), test)
        case = Case(settings, panel.victim, truth, panel.pool, min(BUDGET, len(panel.pool)), seed, STUDENT, STEPS)
        measured(record, f"{name}/rows", case)
    return record.write(table=table(record.content["cells"]))


def rows(found: dict[str, Any]) -> list[Row]:
    """The best thief's fidelity under every defense."""
    return best_thief(found, dict.fromkeys((row["dataset"] for row in found["table"]), found["budget"]))
