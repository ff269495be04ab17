"""What a pool is worth on MNIST: real images against Gaussian noise, LeNet to LeNet (the foundation's check)."""

from __future__ import annotations

from typing import Any

from leakmeter.data.catalogue import load
from leakmeter.extraction.base import extract
from leakmeter.oracle.oracle import Oracle
from leakmeter.studies.copies import share_over_seeds
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.record import Record
from leakmeter.studies.rows import Row, by_group, share
from leakmeter.studies.victims import trained
from leakmeter.victims.load import load_victim

POOLS = ("mnist", "fashion-mnist", "gaussian")


def main(settings: StudyOptions) -> dict[str, Any]:
    """Fidelity and accuracy from each pool at the same budget, over seeds."""
    budget, steps = (1000, 300) if settings.quick else (20_000, 3000)
    record = settings.record("surrogate-mnist", budget=budget, steps=steps, view="probs")
    test = load("mnist", "test", settings.data_dir)
    for number in settings.numbers:
        network = trained("mnist", seed=number, data_dir=settings.data_dir, progress=settings.progress)
        victim = load_victim(network, input_shape=(1, 28, 28), low=0.0, high=1.0, device=settings.device)
        for pool in POOLS:

            def copy(pool: str = pool, number: int = number, victim: Any = victim) -> dict[str, Any]:
                oracle = Oracle(victim, "probs", budget)
                options: dict[str, Any] = {"pool": pool, "data_dir": settings.data_dir, "recipe": _recipe(steps)}
                done = extract(
                    "surrogate",
                    oracle,
                    seed=number,
                    test=test,
                    device=settings.device,
                    progress=settings.progress,
                    **options,
                )
                score = done.curve[-1].score
                assert score is not None
                return {**score.model_dump(), "queries": oracle.ledger.spent(), "seconds": done.seconds}

            record.cell(f"{pool}/seed{number}", copy)
    return record.write(summary={pool: _summary(record, pool, settings.numbers) for pool in POOLS})


def _recipe(steps: int) -> dict[str, Any]:
    return {"steps": steps, "batch": 200, "lr": 2e-3, "schedule": "cyclic"}


def _summary(record: Record, pool: str, seeds: range) -> dict[str, Any]:
    cells = [record.content["cells"][f"{pool}/seed{number}"] for number in seeds]
    share = share_over_seeds(cells)
    return {
        "accuracy_over_victim": share["mean"],
        "interval": share["interval"],
        "fidelity": sum(cell["fidelity"] for cell in cells) / len(cells),
    }


def rows(found: dict[str, Any]) -> list[Row]:
    """The share of the victim's accuracy from every pool."""
    told = []
    for pool, cells in by_group(found["cells"]).items():
        shares = [cell["accuracy"] / cell["victim_accuracy"] for cell in cells]
        most, budget = 1 / min(cell["victim_accuracy"] for cell in cells), f"{found['budget']:,} queries"
        told.append(share(f"{pool}: share of the victim's accuracy", shares, cells[0]["n"], budget, most=most))
    return told
