"""Why ten Gaussian queries copy a convolutional network worse than in Milli et al. section 5.3.

One change at a time, then what helped together. Changed are the queries, the loss, the training and the networks, none
of which the paper gives in full. It writes `x ~ N(0, I)` and does not say how its pixels are scaled. Ours go from 0 to
1; where they are standardised, as was usual, the same words mean noise with the mean and the spread of the data.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from leakmeter.extraction.base import extract
from leakmeter.oracle.oracle import Oracle
from leakmeter.seeds import stream
from leakmeter.studies.copies import over_seeds
from leakmeter.studies.milli._victims import Split, paper_victim, shared_out
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import Row, by_group, share
from leakmeter.training.loop import Recipe

QUERIES = 10
PAPER = 0.84
MEAN, SPREAD = 0.1307, 0.3081
"""Of MNIST's pixels between 0 and 1."""


@dataclass(frozen=True)
class Setting:
    """One way to read the paper; what differs from the first is what is tried."""

    mean: float = 0.0
    spread: float = 1.0
    """Of the queries' pixels."""
    lam: float = 0.1
    """What the answers weigh beside the gradients."""
    steps: int = 1000
    lr: float = 5e-3
    batch: int = 16
    """Rows of a step, each with a combination of class scores of its own; the ten queries fill it."""
    joint: bool = True
    """Answers and gradients from the start, as in the paper; else the answers first, as our own attack does."""
    victim: str = "milli-conv"
    student: str = "milli-conv"


SETTINGS = {
    "as in milli-fig4": Setting(),
    "queries as standardised pixels": Setting(mean=MEAN, spread=SPREAD),
    "queries a tenth as wide": Setting(spread=0.1),
    "queries three times as wide": Setting(spread=3.0),
    "answers weigh as much as gradients": Setting(lam=1.0),
    "gradients alone": Setting(lam=0.0),
    "the answers first": Setting(joint=False),
    "four times as many combinations a step": Setting(batch=64),
    "a lower learning rate": Setting(lr=1e-3),
    "trained three times as long": Setting(steps=3000),
    "a smaller student": Setting(student="lenet"),
    "a smaller victim and student": Setting(victim="lenet", student="lenet"),
    "a wider student": Setting(student="milli-conv:1024"),
    "a wider victim and student": Setting(victim="milli-conv:1024", student="milli-conv:1024"),
    "standardised, answers weigh as much, three times as long": Setting(mean=MEAN, spread=SPREAD, lam=1.0, steps=3000),
}


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `milli-gaussian.json` into `out`; goes on where an earlier run stopped."""
    described = {name: asdict(setting) for name, setting in SETTINGS.items()}
    record = settings.record("milli-gaussian", queries=QUERIES, paper=PAPER, settings=described)
    data = "digits" if settings.quick else "mnist"
    split = shared_out(data, settings.data_dir)
    for seed in settings.numbers:
        for name, setting in SETTINGS.items():
            settings.progress.say(f"{name} | seed {seed}")
            record.cell(f"{name} | seed {seed}", partial(_cell, settings, data, split, setting, seed))
        done = [*settings.numbers][: seed - settings.seed + 1]
        record.write(table={name: _row(record.content["cells"], name, done) for name in SETTINGS})
    return record.content


def _cell(settings: StudyOptions, data: str, split: Split, setting: Setting, seed: int) -> dict[str, Any]:
    victim = paper_victim(settings, data, setting.victim, split, seed)
    made = extract(
        "gradients",
        Oracle(victim, "logits+gradient", QUERIES, seed=seed),
        seed=seed,
        test=split.test,
        device=settings.device,
        progress=settings.progress,
        pool=_noise(setting, split.test.input_shape, seed),
        student=setting.student,
        lam=setting.lam,
        joint=setting.joint,
        recipe=Recipe(
            steps=60 if settings.quick else setting.steps, batch=setting.batch, lr=setting.lr, schedule="cyclic"
        ),
    )
    score = made.curve[-1].score
    assert score is not None
    measured = score.model_dump(include={"accuracy", "fidelity", "victim_accuracy", "n"})
    return {**measured, "seconds": round(made.seconds, 1)}


def _noise(setting: Setting, shape: tuple[int, ...], seed: int) -> Tensor:
    draws = torch.randn(QUERIES, *shape, generator=stream(seed, "pool"))
    return setting.mean + setting.spread * draws


def _row(cells: dict[str, Any], name: str, seeds: list[int]) -> dict[str, Any]:
    mine = [cells[f"{name} | seed {seed}"] for seed in seeds]
    return over_seeds([cell["accuracy"] for cell in mine], mine[0]["n"])


def rows(found: dict[str, Any]) -> list[Row]:
    """The accuracy of a copy from ten Gaussian queries, by what was changed."""
    groups = by_group(found["cells"], " | seed").items()
    budget = f"{found['queries']} queries"
    return [
        share(f"{name}: accuracy", [cell["accuracy"] for cell in cells], cells[0]["n"], budget, paper=found["paper"])
        for name, cells in groups
    ]
