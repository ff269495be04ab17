"""What 500 probabilities of a digit classifier are worth to the default attack, over victims and seeds.

Every seed trains its own LeNet on MNIST and attacks it with `auto`, which has no data. Nothing here is chosen: the
settings of `auto` were chosen on other victims (docs/datafree.md), and the seeds reported are not seeds of any pilot.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from leakmeter.data.catalogue import load
from leakmeter.extraction.base import extract
from leakmeter.oracle.oracle import Oracle
from leakmeter.studies.copies import described, over_seeds, share_over_seeds, victim_of
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import Row, share

QUERIES = 500


def main(settings: StudyOptions) -> dict[str, Any]:
    """Fidelity and share of the victim's accuracy, seed by seed, with the means and their intervals."""
    data = "digits" if settings.quick else "mnist"
    record = settings.record("few-answers", victim="lenet", data=data, view="probs", queries=QUERIES, attack="auto")
    for seed in settings.numbers:
        record.cell(f"seed{seed}", partial(_cell, settings, data, seed))
        cells = list(record.content["cells"].values())
        fidelity = over_seeds([cell["fidelity"] for cell in cells], cells[0]["n"])
        record.write(summary={"fidelity": fidelity, "accuracy_over_victim": share_over_seeds(cells)})
    return record.content


def _cell(settings: StudyOptions, data: str, seed: int) -> dict[str, Any]:
    oracle = Oracle(victim_of(settings, data, "lenet", seed), "probs", QUERIES)
    test = load(data, "test", settings.data_dir)
    effort = 0.02 if settings.quick else 1.0
    made = extract("auto", oracle, seed=seed, test=test, progress=settings.progress, effort=effort)
    chosen = [trial.name for trial in made.findings.tried if trial.chosen]
    facts = {"queries": oracle.ledger.spent(), "chosen": chosen, "seconds": round(made.seconds, 1)}
    return described(made.curve[-1].score) | facts


def rows(found: dict[str, Any]) -> list[Row]:
    """Mean fidelity, and the lowest."""
    cells = list(found["cells"].values())
    values, budget = [cell["fidelity"] for cell in cells], f"{found['queries']} queries; lowest {{:.1%}}"
    return [share("fidelity", values, cells[0]["n"], budget.format(min(values)))]
