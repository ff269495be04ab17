"""What counterfactuals give away: networks of 20 and 10 units on tables, 400 queries, three ways to learn from them.

The Counterfactual Clamping Attack (Dissanayake and Dutta, NeurIPS 2024) publishes, for such victims and 400 queries, a
fidelity of .945 on Adult and .962 on COMPAS, and .910 and .922 for counterfactuals taken as labelled queries. Its loss
is implemented beside ours; victims, rows and counterfactuals are those of this package (`_panels.py`,
`oracle/explanations/counterfactual.py`), so that its numbers stand beside ours as a mark, not as the same experiment.
Our loss was chosen on victims of seed 100.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch

from leakmeter.extraction.base import extract
from leakmeter.oracle.oracle import Oracle
from leakmeter.studies.copies import over_seeds
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.ours._panels import REHEARSAL, TABLES, Panel, table
from leakmeter.studies.rows import Row, by_group, share

PUBLISHED = {"adult": {"clamping": 0.945, "labels": 0.910}, "compas": {"clamping": 0.962, "labels": 0.922}}
ARMS = ("no counterfactuals", "labels", "clamping", "boundary")


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `counterfactuals.json`: fidelity on test rows for each way to learn."""
    queries = 50 if settings.quick else 400
    record = settings.record("counterfactuals", queries=queries, published=PUBLISHED, seeds=[*settings.numbers])
    names = (REHEARSAL,) if settings.quick else tuple(TABLES)
    panel = cache(partial(table, settings))
    for seed in settings.numbers:
        for name in names:
            for arm in ARMS:
                made = partial(_cell, settings, partial(panel, name, seed), arm, queries, seed)
                record.cell(f"{name} | {arm} | seed {seed}", made)
    cells = record.content["cells"]
    means = {
        name: {
            arm: over_seeds([cell["fidelity"] for cell in found], found[0]["n"])
            for arm in ARMS
            for found in [[cells[f"{name} | {arm} | seed {seed}"] for seed in settings.numbers]]
        }
        for name in names
    }
    return record.write(table=means)


def _cell(settings: StudyOptions, make: Callable[[], Panel], arm: str, queries: int, seed: int) -> dict[str, Any]:
    panel, plain = make(), arm == ARMS[0]
    options: dict[str, Any] = {} if plain else {"loss": arm, "joint": True}
    done = extract(
        "surrogate" if plain else "counterfactual",
        Oracle(panel.victim, "labels" if plain else "labels+counterfactual", queries, seed=seed),
        seed=seed,
        test=panel.test,
        device=torch.device(settings.device),
        progress=settings.progress,
        pool=panel.pool[:queries],
        student=panel.student,
        **options,
    )
    score = done.curve[-1].score
    assert score is not None
    return {"fidelity": score.fidelity, "victim_accuracy": score.victim_accuracy, "n": score.n, **done.notes}


def rows(found: dict[str, Any]) -> list[Row]:
    """Fidelity of every way to learn, beside what was published of it; the published networks are others."""
    told = []
    for key, cells in by_group(found["cells"], " | seed").items():
        name, arm = key.split(" | ")
        values, paper = [cell["fidelity"] for cell in cells], PUBLISHED[name].get(arm)
        what, budget = f"{name}, {arm}: fidelity", f"{found['queries']} queries"
        told.append(share(what, values, cells[0]["n"], budget, paper=paper))
    return told
